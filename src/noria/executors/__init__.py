"""Where rollouts run beside the training. One file per executor."""
