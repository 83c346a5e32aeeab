"""The project's own source files that a module depends on, found by walking its imports without running them."""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGES = ("preflow", "assets")


def source_files(root: Path, module: str) -> list[Path]:
    """Files of PACKAGES that importing `module` reads, relative to `root` and sorted; the module itself included.

    A package that discovers its modules when it runs (it imports pkgutil) counts as importing all of them, and files
    that are not Python but lie in the folder of a sub-package (templates) count with its modules.
    """
    start = root.joinpath(*module.split(".")).with_suffix(".py")
    found: set[Path] = {start}
    pending = list(_imports(root, start))
    while pending:
        path = _file_of(root, pending.pop())
        if path is None or path in found:
            continue
        found.add(path)
        imported = _imports(root, path)
        pending += imported
        if "pkgutil" in imported:
            pending += [_module_of(root, sibling) for sibling in path.parent.glob("*.py")]
        if path.parent.parent != root:
            found |= {f for f in path.parent.iterdir() if f.is_file() and f.suffix != ".py"}
    return sorted(path.relative_to(root) for path in found)


def digest(root: Path, files: list[Path]) -> str:
    """Hash of names and contents of files."""
    hashed = hashlib.sha256()
    for file in files:
        hashed.update(f"{file}\0{hashlib.sha256((root / file).read_bytes()).hexdigest()}\n".encode())
    return hashed.hexdigest()[:16]


def _file_of(root: Path, module: str) -> Path | None:
    if module.split(".")[0] not in PACKAGES:
        return None
    path = root.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _module_of(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(root: Path, path: Path) -> tuple[str, ...]:
    """Dotted names that a file imports, those inside functions included; importing a.b also imports a."""
    package = _module_of(root, path)
    if path.name != "__init__.py":
        package = package.rpartition(".")[0]
    return _imported(path.read_text(encoding="utf-8"), package)


@cache  # by content: every stage walks through much the same files
def _imported(text: str, package: str) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            stated = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = package.split(".")
            above = inside[: len(inside) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            stated = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in stated:
            parts = name.split(".")
            names |= dict.fromkeys(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return tuple(names)
