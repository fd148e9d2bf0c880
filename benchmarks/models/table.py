"""Which networks there are, and to which group of the table each belongs. Needs no package."""

from __future__ import annotations

CNN, SILU, TRANSFORMER, OTHER = "CNN", "SiLU CNN", "transformer", "1-D, 3-D, generator"
GROUPS = (CNN, SILU, TRANSFORMER, OTHER)

TINY = {"tiny_cnn": CNN, "tiny_silu": SILU, "tiny_attention": TRANSFORMER}
"""Made by onnx alone, in a moment."""

MODELS = {
    **dict.fromkeys(
        (
            *("mobilenet_v2", "mobilenet_v3_small", "resnet50", "resnext50", "densenet121"),
            *("shufflenet_v2", "mnasnet", "regnet_x", "ghostnet", "unet", "deeplabv3", "ssdlite"),
        ),
        CNN,
    ),
    **dict.fromkeys(("efficientnet_b0", "yolov5n", "yolov8n", "yolo11n", "cspdarknet"), SILU),
    **dict.fromkeys(
        (
            *("convnext_tiny", "deit_tiny", "vit_b_16", "swin_t", "mobilevit_s", "mixer", "bert_2"),
            *("bert_12", "gpt2_like", "llama_like", "segformer_b0"),
        ),
        TRANSFORMER,
    ),
    **dict.fromkeys(
        (
            *("wav2vec_like", "wavenet", "tcn", "lstm", "crnn", "fsrcnn", "espcn", "dcgan", "r3d_18"),
            *("vnet", "pointnet", "autoencoder"),
        ),
        OTHER,
    ),
}
"""Made by `build.py` with the packages of the extra `models`."""
