"""Lets PyPI's torchvision be imported beside the CPU build of torch; every process of the server reads this.

torchvision's compiled operators do not load there, and its import then stops at two operators that it only wants
to annotate. Declaring their schemas is enough: resizing and normalizing pages is plain torch.
"""

import importlib.abc
import importlib.machinery
import sys

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class DeclareOperators(importlib.abc.MetaPathFinder):
    """Acts when torchvision is first looked for, so that Python itself starts without torch."""

    def find_spec(self, name, path=None, target=None):
        """Declare what is missing and leave the finding to others."""
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        import torch

        spec = importlib.machinery.PathFinder.find_spec(name)
        for folder in spec.submodule_search_locations if spec else ():
            try:
                torch.ops.load_library(f"{folder}/_C.so")
            except OSError:
                # Kept on the class, since the schemas go when the library object does.
                DeclareOperators.library = torch.library.Library("torchvision", "FRAGMENT")
                for schema in SCHEMAS:
                    DeclareOperators.library.define(schema)
        return None


sys.meta_path.insert(0, DeclareOperators())
