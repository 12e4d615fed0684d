"""FO304: a training loop on a GPU that reads and decodes its files itself, one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from flatout.check.loaders import Loader
from flatout.check.module import Module
from flatout.check.rule import Hit, Rule
from flatout.check.words import words

_READERS = frozenset(
    words(
        "PIL.Image.open cv2.imread torchvision.io.read_image torchvision.io.decode_image torchvision.io.read_video "
        "skimage.io.imread imageio.imread imageio.v2.imread imageio.v3.imread matplotlib.pyplot.imread numpy.load "
        "torch.load torchaudio.load soundfile.read librosa.load scipy.io.wavfile.read nibabel.load rasterio.open "
        "pydicom.dcmread pandas.read_csv pandas.read_parquet"
    )
)
# Those of torchvision that read an image file for each sample.
_IMAGE_FOLDERS = frozenset(
    f"torchvision.datasets.{name}"
    for name in words(
        "ImageFolder DatasetFolder ImageNet CocoDetection CocoCaptions VOCDetection VOCSegmentation Cityscapes CelebA "
        "Food101 Flowers102 OxfordIIITPet StanfordCars Places365 Caltech101 Caltech256 INaturalist Country211 DTD "
        "FGVCAircraft SUN397"
    )
)


def find(module: Module) -> Iterator[Hit]:
    for loader in module.loaders.all:
        if loader.workers != 0 or not module.uses_gpu:
            continue
        loops = [loop for loop in module.loaders.loops_over(loader) if loop in module.regions.training_loops]
        what = _reads_files(module, loader) if loops else None
        if what is not None:
            given = "`num_workers=0`" if "num_workers" in loader.options.values else "no `num_workers`"
            yield Hit(
                loader.call,
                f"this DataLoader has {given}, so the training loop on line {loops[0].lineno} itself runs {what} for "
                "every sample, and the GPU waits",
                "Give it `num_workers`: 4 to 8 a GPU is a usual start, then measure.",
            )


def _reads_files(module: Module, loader: Loader) -> str | None:
    """What the dataset does for a sample that takes long, as words for a message."""
    if loader.dataset.class_name in _IMAGE_FOLDERS:
        return f"the image decoding of `{(loader.dataset.class_name or '').rpartition('.')[2]}`"
    class_ = module.loaders.dataset_class(loader)
    for function in module.loaders.worker_functions(class_) if class_ is not None else ():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and module.qualified(node.func) in _READERS:
                return f"`{module.text.short(node, 40)}` (line {node.lineno})"
    return None


RULE = Rule("FO304", "batches-made-without-workers", "medium", find, needs=("DataLoader",))
