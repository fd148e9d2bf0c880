"""The networks: those of packages by their names there, small ones from their public descriptions.

Each builder gives the module, or the module and its inputs; else the input is 1 x 3 x 224 x 224. Sizes of
inputs are the usual ones; of language models 128 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.models import written

_TOKENS = 128


def _vision(name: str, **more: Any) -> Callable[[], Any]:
    def build() -> Any:
        import torchvision.models as models

        return getattr(models, name)(weights=None, **more)

    return build


def _timm(name: str) -> Callable[[], Any]:
    def build() -> Any:
        import timm

        return timm.create_model(name, pretrained=False)

    return build


def _yolo(name: str, side: int = 640) -> Callable[[], Any]:
    def build() -> Any:
        from ultralytics import YOLO

        model = YOLO(f"{name}.yaml").model
        model.fuse(verbose=False)
        head = model.model[-1]
        head.export, head.format = True, "onnx"
        return model, torch.randn(1, 3, side, side)

    return build


class _Only(nn.Module):
    """A model whose results are a dictionary or an object: one tensor of it."""

    def __init__(self, model: nn.Module, key: str, **fixed: Any) -> None:
        super().__init__()
        self.model, self.key, self.fixed = model, key, fixed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(x, **self.fixed)[self.key]
        return found


def _deeplab() -> Any:
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

    return _Only(deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None), "out")


def _ssdlite() -> Any:
    """Backbone and heads; the search for boxes that follows is not part of it."""
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    whole = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = whole.backbone, whole.head

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.head(list(self.backbone(x).values()))
            return found["bbox_regression"], found["cls_logits"]

    return Heads(), torch.randn(1, 3, 320, 320)


def _bert(layers: int, width: int) -> Callable[[], Any]:
    def build() -> Any:
        from transformers import BertConfig, BertModel

        config = BertConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            attn_implementation="eager",
        )
        model = BertModel(config, add_pooling_layer=False)
        return _Only(model, "last_hidden_state"), torch.randint(0, 1000, (1, _TOKENS))

    return build


def _segformer() -> Any:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return _Only(SegformerForSemanticSegmentation(SegformerConfig(num_labels=19)), "logits")


def _wav2vec() -> Any:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=1024,
        conv_dim=(128,) * 7,
        attn_implementation="eager",
    )
    return _Only(Wav2Vec2Model(config), "last_hidden_state"), torch.randn(1, 16000)


def _video() -> Any:
    from torchvision.models.video import r3d_18

    return r3d_18(weights=None), torch.randn(1, 3, 8, 112, 112)


BUILDERS: dict[str, Callable[[], Any]] = {
    "mobilenet_v2": _vision("mobilenet_v2"),
    "mobilenet_v3_small": _vision("mobilenet_v3_small"),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "resnet50": _vision("resnet50"),
    "resnext50": _vision("resnext50_32x4d"),
    "densenet121": _vision("densenet121"),
    "shufflenet_v2": _vision("shufflenet_v2_x1_0"),
    "mnasnet": _vision("mnasnet1_0"),
    "regnet_x": _vision("regnet_x_400mf"),
    "ghostnet": _timm("ghostnet_100"),
    "unet": lambda: (written.UNet(), torch.randn(1, 3, 256, 256)),
    "deeplabv3": _deeplab,
    "ssdlite": _ssdlite,
    "yolov5n": _yolo("yolov5nu"),
    "yolov8n": _yolo("yolov8n"),
    "yolo11n": _yolo("yolo11n"),
    "cspdarknet": _timm("cspdarknet53"),
    "convnext_tiny": _vision("convnext_tiny"),
    "deit_tiny": _timm("deit_tiny_patch16_224"),
    "vit_b_16": _vision("vit_b_16"),
    "swin_t": _vision("swin_t"),
    "mobilevit_s": _timm("mobilevit_s"),
    "mixer": _timm("mixer_s16_224"),
    "bert_2": _bert(2, 128),
    "bert_12": _bert(12, 768),
    "gpt2_like": lambda: written.language(written.Gpt(), _TOKENS),
    "llama_like": lambda: written.language(written.Llama(), _TOKENS),
    "segformer_b0": _segformer,
    "wav2vec_like": _wav2vec,
    "wavenet": lambda: (written.WaveNet(), torch.randn(1, 1, 4096)),
    "tcn": lambda: (written.Tcn(), torch.randn(1, 32, 512)),
    "lstm": lambda: (written.Lstm(), torch.randn(1, 32, 64)),
    "crnn": lambda: (written.Crnn(), torch.randn(1, 1, 32, 128)),
    "fsrcnn": lambda: (written.Fsrcnn(), torch.randn(1, 1, 128, 128)),
    "espcn": lambda: (written.Espcn(), torch.randn(1, 3, 128, 128)),
    "dcgan": lambda: (written.DcGan(), torch.randn(1, 100, 1, 1)),
    "r3d_18": _video,
    "vnet": lambda: (written.VNet(), torch.randn(1, 1, 32, 64, 64)),
    "pointnet": lambda: (written.PointNet(), torch.randn(1, 3, 1024)),
    "autoencoder": lambda: (written.Autoencoder(), torch.randn(16, 784)),
}
"""By the names of table.MODELS."""
