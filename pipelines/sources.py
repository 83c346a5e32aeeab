"""The project's own source files that a module depends on, found by walking its imports without running them."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("preflow", "assets")


class Sources:
    """Files that importing modules of one project reads; every file is looked at once, so build one a question."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.near: dict[Path, frozenset[Path]] = {}

    def of(self, module: str) -> list[Path]:
        """Files of PACKAGES that importing `module` reads, its own among them, sorted and relative to the root.

        A package that discovers its modules when it runs (it imports pkgutil) counts as importing all of them; files
        that are not Python but lie in the folder of a sub-package (templates) count with its modules. A sub-package of
        which more than half is read is named as a whole: DVC rewrites every name with each stage, and people read them.
        """
        found, pending = set[Path](), [self.root.joinpath(*module.split(".")).with_suffix(".py")]
        while pending:
            path = pending.pop()
            if path not in found:
                found.add(path)
                pending += self._near(path)
        whole = {folder for folder in {path.parent for path in found} if self._mostly(folder, found)}
        named = whole | {path for path in found if path.parent not in whole}
        return sorted(path.relative_to(self.root) for path in named)

    def _mostly(self, folder: Path, found: set[Path]) -> bool:
        """Whether a sub-package, not a package itself, has more than half of its files among those found."""
        files = _files(folder)
        return folder.parent != self.root and 2 * len(found.intersection(files)) > len(files) > 1

    def _near(self, path: Path) -> frozenset[Path]:
        """What one file imports, and what lies beside it and counts with it."""
        if path.suffix != ".py":
            return frozenset()
        if path not in self.near:
            imported = set(_imports(self.root, path))
            files = {file for module in imported if (file := _file_of(self.root, module))}
            if "pkgutil" in imported:
                files |= set(path.parent.glob("*.py"))
            if path.parent.parent != self.root:
                files |= {file for file in _files(path.parent) if file.suffix != ".py"}
            self.near[path] = frozenset(files)
        return self.near[path]


def digest(root: Path, paths: list[Path]) -> str:
    """Hash of names and contents of files, and of those in folders."""
    hashed = hashlib.sha256()
    for path in paths:
        for file in _files(root / path) if (root / path).is_dir() else [root / path]:
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            hashed.update(f"{file.relative_to(root)}\0{content}\n".encode())
    return hashed.hexdigest()[:16]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file())


def _file_of(root: Path, module: str) -> Path | None:
    if module.split(".")[0] not in PACKAGES:
        return None
    path = root.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _module_of(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(root: Path, path: Path) -> Iterator[str]:
    """Dotted names that a file imports, those inside functions included; importing a.b also imports a."""
    package = _module_of(root, path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
