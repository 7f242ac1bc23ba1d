"""The smoke test of images: starts each image under every runtime that works here, and checks it from inside.

`run` starts images, `engine_smoke` starts them in the engine that built them, `in_image_checks` runs inside
an image, `checks` judges its answers, and `report` writes them.
"""
