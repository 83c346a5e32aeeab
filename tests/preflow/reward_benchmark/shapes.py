"""Records of published benchmarks in their exact shape."""

import json

STYLES = ("short", "a longer text", "# a longer text with marks")


def reward_bench(name, subset, **fields):
    models = {"chosen_model": "x", "rejected_model": "y"}
    return (
        {"id": name, "prompt": f"p{name}", "chosen": f"good {name}", "rejected": f"bad {name}", "subset": subset}
        | models
        | fields
    )


def rm_bench(name, domain):
    sides = {side: [f"{side} {name} {style}" for style in STYLES] for side in ("chosen", "rejected")}
    return {"id": name, "prompt": f"p{name}", "domain": domain, **sides}


def judge_bench(name, label, source):
    sides = {"response_A": f"a {name}", "response_B": f"b {name}"}
    return {"pair_id": name, "source": source, "question": f"q{name}", "label": label, **sides}


def help_steer(prompt, response, helpfulness):
    others = dict.fromkeys(("correctness", "coherence", "complexity", "verbosity"), 2)
    return {"prompt": prompt, "response": response, "helpfulness": helpfulness, **others}


def write(folder, name, rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
