"""The network that train.py trains and evaluate.py evaluates."""

from __future__ import annotations

import tensorflow as tf
from shards import CLASSES


def network(side: int) -> tf.keras.Model:
    """Return the network for pictures of *side* pixels."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((side, side, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(CLASSES),
        ]
    )
