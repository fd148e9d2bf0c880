# Generated from user_layers/bmodel/model.fbs by flatc 2.0.8; do not edit.
# Regenerate: python -m user_layers.bmodel.regenerate
