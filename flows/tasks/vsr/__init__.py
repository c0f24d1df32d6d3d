"""First task: x2 video super-resolution with a Space-to-Depth head, residual blocks and a nearest anchor."""
