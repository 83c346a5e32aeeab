import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from preflow.endpoint.answers import read_answers
from preflow.endpoint.asking import ask, ask_in_both_orders, refuse_a_mute_model, request, unread_opening
from preflow.endpoint.inert import messages_about
from preflow.endpoint.settings import EndpointError
from tests.preflow.endpoint.server import Reply, endpoint, refusal, served


def asked(n, settings, answers):
    """Questions 0 to n - 1 and their answers, in order."""
    questions = [
        request(settings, messages_about({"n": i}, instruction="Answer.", question="What is n?")) for i in range(n)
    ]
    given = ask(questions, endpoint=settings, answers=answers)
    return [given[question.key] for question in questions]


def echo(material):
    return f"n is {material['n']}"


def test_a_second_run_asks_nothing_and_needs_no_key(tmp_path):
    rng = np.random.default_rng(0)
    with served(lambda material: f"{material['n']} {rng.integers(1_000_000)}") as (url, requests):
        cold = asked(20, endpoint(url), tmp_path / "one")
        warm = asked(20, endpoint(url), tmp_path / "one")
        assert len(requests) == 20
        cold_again = asked(20, endpoint(url), tmp_path / "two")
    assert [answer.split()[0] for answer in cold] == [str(i) for i in range(20)]
    assert warm == cold != cold_again
    assert asked(20, endpoint(url, api_key_variable="PREFLOW_TEST_NO_SUCH_KEY"), tmp_path / "one") == cold
    assert {request["path"] for request in requests} == {"/v1/chat/completions"}


def test_only_what_changes_the_answer_makes_it_ask_again(tmp_path):
    with served(echo) as (url, requests):
        n = {}
        for name, change in {
            "first": {},
            "concurrency": {"concurrent_requests": 1, "retries": 5, "timeout_s": 9.0, "base_url": url + "/"},
            "model": {"model": "other"},
            "tokens": {"max_tokens": 5},
            "temperature": {"temperature": 0.5},
        }.items():
            before = len(requests)
            asked(3, endpoint(url, **change), tmp_path / "answers")
            n[name] = len(requests) - before
    assert n == {"first": 3, "concurrency": 0, "model": 3, "tokens": 3, "temperature": 3}


def test_keys_stay_those_under_which_answers_were_kept():
    """A changed key would ask a paid server for everything again."""
    messages = messages_about({"n": 1}, instruction="Answer.", question="What is n?")
    assert request(endpoint("http://localhost:8000/v1/"), messages).key == KEY
    assert request(endpoint("http://localhost:8000/v1"), messages).key == KEY


KEY = "9e195213d9c861d551f6e9dbf29b2bd2"


def worded(prompt, one, other):
    return messages_about({"prompt": prompt, "one": one, "other": other}, instruction="Compare.", question="Which?")


def test_both_orders_are_asked_once_and_equal_texts_are_not(tmp_path):
    pairs = [([], "x", "y"), ([], "z", "z"), ([], "y", "x"), ([], "x", "y")]
    with served(lambda material: material["one"]) as (url, requests):
        given = ask_in_both_orders(pairs, worded, endpoint=endpoint(url), answers=tmp_path / "answers")
        assert ask_in_both_orders([], worded, endpoint=endpoint(url), answers=tmp_path / "answers") == []
    assert given == [("x", "y"), (), ("y", "x"), ("x", "y")]
    assert len(requests) == 2


def test_runs_at_the_same_time_agree(tmp_path):
    rng, found = np.random.default_rng(0), {}
    with served(lambda material: str(rng.integers(1_000_000))) as (url, requests):

        def run(name):
            found[name] = asked(40, endpoint(url), tmp_path / "answers")

        threads = [threading.Thread(target=run, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(requests) > 40
    assert found["a"] == found["b"] == found["c"]


def test_a_busy_server_is_asked_again(tmp_path):
    tries = Counter()

    def busy(material):
        tries[material["n"]] += 1
        if tries[material["n"]] <= 2:
            return refusal(429 if tries[material["n"]] == 1 else 503, "busy")
        return echo(material)

    with served(busy) as (url, requests):
        found = asked(10, endpoint(url), tmp_path / "answers")
    assert len(requests) == 3 * 10
    assert found == [f"n is {i}" for i in range(10)]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "api_key_variable"), (403, "may use this model"), (404, "/v1"), (429, "concurrent_requests"), (500, "log")],
)
def test_a_failing_server_is_named_and_what_it_answered_is_kept(tmp_path, status, remedy):
    working = 7

    def failing(material):
        return refusal(status, "no more") if len(requests) > working else echo(material)

    settings = {"concurrent_requests": 1, "retries": 1}
    with served(failing) as (url, requests):
        with pytest.raises(EndpointError, match=rf"'judge' at {url} failed.*no more.*{remedy}.*{tmp_path}"):
            asked(16, endpoint(url, **settings), tmp_path / "answers")
        assert len(read_answers(tmp_path / "answers")) == 7
        sent = len(requests)
        working = 1000
        found = asked(16, endpoint(url, **settings), tmp_path / "answers")
        assert len(requests) - sent == 16 - 7
    assert found == [f"n is {i}" for i in range(16)]


def test_a_silent_or_absent_server_is_named(tmp_path):
    release = threading.Event()
    with served(lambda _: release.wait(20) and "yes") as (url, _):
        with pytest.raises(EndpointError, match="raise timeout_s"):
            asked(1, endpoint(url, timeout_s=0.2, retries=0), tmp_path / "answers")
        release.set()
    with pytest.raises(EndpointError, match="server runs"):
        asked(1, endpoint(url, retries=0), tmp_path / "answers")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>Sign in</html>", "text/html"),
        (b'{"choices": []}', "application/json"),
        (b'{"choices": [{}]}', "application/json"),
        (b'{"error": "overloaded"}', "application/json"),
        (b'{"choices": [{"message": {"content": ["A"]}}]}', "application/json"),
        (b'{"choices": [', "application/json"),
    ],
)
def test_another_protocol_is_refused(tmp_path, body, kind):
    with (
        served(lambda _: Reply(200, body, {"Content-Type": kind})) as (url, _),
        pytest.raises(EndpointError, match=rf"{url} does not answer in the chat completions protocol; check base_url"),
    ):
        asked(1, endpoint(url, retries=0), tmp_path / "answers")
    assert read_answers(tmp_path / "answers") == {}


@pytest.mark.parametrize("status", [400, 422])
def test_a_request_refused_for_its_content_alone_is_asked_again(tmp_path, status):
    with served(lambda material: refusal(status, "filtered") if material["n"] == 1 else echo(material)) as (url, sent):
        found = asked(3, endpoint(url), tmp_path / "answers")
        assert asked(3, endpoint(url), tmp_path / "answers") == found
        assert len(sent) == 3 + 1
    assert (found[0], found[2]) == ("n is 0", "n is 2")
    assert found[1].startswith("refused: ")
    assert "filtered" in found[1]


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(tmp_path, monkeypatch):
    with served(echo) as (url, requests):
        settings = endpoint(url, api_key_variable="PREFLOW_TEST_KEY")
        with pytest.raises(EndpointError, match="environment variable PREFLOW_TEST_KEY"):
            asked(2, settings, tmp_path / "answers")
        monkeypatch.setenv("PREFLOW_TEST_KEY", "sesame-73")
        asked(2, settings, tmp_path / "answers")
    assert [request["key"] for request in requests] == ["Bearer sesame-73"] * 2
    assert b"sesame" not in (tmp_path / "answers").read_bytes()


def test_a_model_that_says_nothing_of_what_is_asked_for_is_refused():
    given = [("pair 1", ("yes", "well")), ("pair 2", ("perhaps" * 90, "yes"))]
    read = {"yes": True}.get
    refuse_a_mute_model(given, read, lacking="yes", endpoint=endpoint("there"))
    refuse_a_mute_model([], read, lacking="yes", endpoint=endpoint("there"))
    with pytest.raises(
        EndpointError, match=r"'judge' at there gave no yes in 3 of 4 .* on pair 1 it began 'well'; raise"
    ):
        refuse_a_mute_model([*given[:1], ("pair 2", ("no", "no"))], read, lacking="yes", endpoint=endpoint("there"))
    assert unread_opening(given[1][1], read) == ("perhaps" * 90)[:80]
    assert unread_opening(("yes", "yes"), read) is None


RUN = """
import json, sys
from pathlib import Path
from preflow.endpoint.settings import Endpoint
from tests.preflow.endpoint.test_asking import asked
asked(60, Endpoint(**json.loads(sys.argv[1])), Path(sys.argv[2]))
"""


def test_kill_9_during_the_calls_loses_and_repeats_no_answer(tmp_path):
    """Case E37: all but the requests that were under way at the kill are kept, and none is asked for twice."""
    slow = 0.02
    with served(lambda material: time.sleep(slow) or echo(material)) as (url, requests):
        arguments = [json.dumps(asdict(endpoint(url))), str(tmp_path / "answers")]
        run = subprocess.Popen([sys.executable, "-c", RUN, *arguments])
        while len(requests) < 20:
            assert run.poll() is None
            time.sleep(0.005)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        time.sleep(0.1)  # what it had sent has arrived by then
        sent, slow = len(requests), 0
        kept = len(read_answers(tmp_path / "answers"))
        assert sent - 4 <= kept <= sent < 60
        found = asked(60, endpoint(url), tmp_path / "answers")
        assert len(requests) - sent == 60 - kept
    assert found == [f"n is {i}" for i in range(60)]
