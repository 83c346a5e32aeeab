"""Which source files a stage depends on, found by walking imports."""

from pathlib import Path

from pipelines.sources import Sources, digest


def project(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_imports_are_followed_through_functions_packages_and_relative_names(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "assets/__init__.py": "",
            "assets/a.py": "import polars\nfrom preflow.near import f\ndef asset():\n    from preflow import late\n",
            "preflow/__init__.py": "",
            "preflow/near.py": "from .far import g\n",
            "preflow/far.py": "",
            "preflow/late.py": "",
            "preflow/unused.py": "",
        },
    )
    assert list(map(str, Sources(root).of("assets.a"))) == [
        "assets/a.py",
        "preflow/__init__.py",
        "preflow/far.py",
        "preflow/late.py",
        "preflow/near.py",
    ]


def test_discovered_modules_and_templates_count(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "assets/a.py": "from preflow.formats import load\nfrom preflow.report.page import render\n",
            "preflow/formats/__init__.py": "import pkgutil\n",
            "preflow/formats/one.py": "from preflow.shared import x\n",
            "preflow/shared.py": "",
            "preflow/report/__init__.py": "",
            "preflow/report/page.py": "",
            "preflow/report/page.html.j2": "",
        },
    )
    found = {str(path) for path in Sources(root).of("assets.a")}
    assert found == {"assets/a.py", "preflow/formats", "preflow/shared.py", "preflow/report"}


def test_a_sub_package_is_named_as_a_whole_where_most_of_it_is_read(tmp_path: Path) -> None:
    names = ("__init__", "one", "two", "three")
    files = {f"preflow/{room}/{name}.py": "" for room in ("most", "half") for name in names}
    text = "from preflow.most import one, two\nfrom preflow.half import one\n"
    root = project(tmp_path, files | {"assets/a.py": text})
    assert [str(path) for path in Sources(root).of("assets.a")] == [
        "assets/a.py",
        "preflow/half/__init__.py",
        "preflow/half/one.py",
        "preflow/most",
    ]
    first = digest(root, [Path("preflow/most")])
    (root / "preflow/most/__pycache__").mkdir()
    (root / "preflow/most/__pycache__/one.pyc").write_text("")
    assert digest(root, [Path("preflow/most")]) == first, "what Python writes is no source"
    (root / "preflow/most/three.py").write_text("x = 1\n")
    assert digest(root, [Path("preflow/most")]) != first


def test_the_digest_follows_content_and_name(tmp_path: Path) -> None:
    root = project(tmp_path, {"assets/a.py": "x = 1\n", "assets/b.py": "x = 1\n"})
    first = digest(root, [Path("assets/a.py")])
    assert first != digest(root, [Path("assets/b.py")])
    (root / "assets/a.py").write_text("x = 2\n")
    assert first != digest(root, [Path("assets/a.py")])
