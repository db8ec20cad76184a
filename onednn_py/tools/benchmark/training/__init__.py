"""Times the training steps of networks with PyTorch, its convolutions run here and not."""
