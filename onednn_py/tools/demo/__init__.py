"""The demo: a small network that learns handwritten digits with oneDNN's gradients."""
