"""LeNet in NumPy: two convolutions with pooling, two layers above them, and their gradients."""

import os

import numpy as np

KINDS = 10


def make_digits(count, seed):
    """Return images of ten patterns with noise, one channel of eight by eight, and which pattern each is of."""
    patterns = np.random.default_rng(7).random((KINDS, 8, 8), dtype=np.float32)
    dice = np.random.default_rng(seed)
    labels = dice.integers(KINDS, size=count)
    noise = dice.standard_normal((count, 8, 8), dtype=np.float32)
    return (patterns[labels] - 0.5 + 0.3 * noise)[..., None], labels


def load(folder, part):
    """Return the images and labels of a file with the arrays x, of bytes, and y."""
    with np.load(os.path.join(folder, part + ".npz")) as arrays:
        x, y = arrays["x"], arrays["y"]
    side = round(x[0].size ** 0.5)
    return x.reshape(-1, side, side, 1).astype(np.float32) / 255 - 0.5, y.astype(np.int64)


class Network:
    """The weights, and what is done with them; images are (count, side, side, channels)."""

    def __init__(self, weights):
        self.weights = weights

    @classmethod
    def new(cls, side, dice):
        """Draw the weights of a network for images of *side* by *side* pixels."""
        small = side // 2 // 2
        shapes = {
            "first": (3, 3, 1, 8),
            "second": (3, 3, 8, 16),
            "third": (small * small * 16, 64),
            "score": (64, KINDS),
        }
        weights = {}
        for name, shape in shapes.items():
            scale = np.sqrt(1 / np.prod(shape[:-1]))
            weights[name] = (scale * dice.standard_normal(shape)).astype(np.float32)
            weights[name + "_b"] = np.zeros(shape[-1], np.float32)
        return cls(weights)

    def forward(self, images):
        """Return the scores, and what the gradients need."""
        w = self.weights
        one, kept_one = convolve(images, w["first"], w["first_b"])
        two, kept_two = convolve(one, w["second"], w["second_b"])
        flat = two.reshape(len(two), -1)
        hidden = np.tanh(flat @ w["third"] + w["third_b"])
        return hidden @ w["score"] + w["score_b"], (kept_one, kept_two, two.shape, flat, hidden)

    def answer(self, images):
        return np.concatenate(
            [self.forward(images[at : at + 256])[0].argmax(1) for at in range(0, len(images), 256)]
        )

    def learn(self, images, labels, lr):
        """Take one step of gradient descent; return the mean cross entropy before it."""
        scores, (kept_one, kept_two, shape, flat, hidden) = self.forward(images)
        scores = scores - scores.max(1, keepdims=True)
        chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = -np.log(chances[rows, labels] + 1e-9).mean()
        chances[rows, labels] -= 1
        slope, w = chances / len(labels), self.weights
        found = {"score": hidden.T @ slope, "score_b": slope.sum(0)}
        slope = slope @ w["score"].T * (1 - hidden**2)
        found |= {"third": flat.T @ slope, "third_b": slope.sum(0)}
        slope = (slope @ w["third"].T).reshape(shape)
        found["second"], found["second_b"], slope = unconvolve(slope, w["second"], kept_two)
        found["first"], found["first_b"], _ = unconvolve(slope, w["first"], kept_one)
        for name, change in found.items():
            w[name] -= np.float32(lr) * change
        return float(loss)


def convolve(images, kernel, bias):
    """Return tanh of the convolution (same size), the largest of each two by two; and what was seen."""
    seen = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(1, 2))
    seen = seen.transpose(0, 1, 2, 4, 5, 3).reshape(*images.shape[:3], -1)
    full = np.tanh(seen @ kernel.reshape(-1, kernel.shape[-1]) + bias)
    count, side, _, channels = full.shape
    half = side // 2
    cells = full[:, : 2 * half, : 2 * half].reshape(count, half, 2, half, 2, channels)
    return cells.max((2, 4)), (seen, full, cells)


def unconvolve(slope, kernel, kept):
    """Return the gradients of a kernel, of its bias and of what it saw."""
    seen, full, cells = kept
    largest = cells == cells.max((2, 4), keepdims=True)
    spread = np.zeros_like(full)
    half = cells.shape[1]
    spread[:, : 2 * half, : 2 * half] = (largest * slope[:, :, None, :, None]).reshape(
        len(full), 2 * half, 2 * half, -1
    )
    spread *= 1 - full**2
    flat = spread.reshape(-1, spread.shape[-1])
    own = seen.reshape(-1, seen.shape[-1]).T @ flat
    back = (flat @ kernel.reshape(-1, kernel.shape[-1]).T).reshape(*full.shape[:3], 3, 3, -1)
    before = np.pad(np.zeros_like(back[..., 0, 0, :]), ((0, 0), (1, 1), (1, 1), (0, 0)))
    side = full.shape[1]
    for down in range(3):
        for right in range(3):
            before[:, down : down + side, right : right + side] += back[..., down, right, :]
    return own.reshape(kernel.shape), flat.sum(0), before[:, 1:-1, 1:-1]
