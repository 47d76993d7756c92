"""Train a Transformer that translates, and say how good its translations are (BLEU); see training.py for the rest.

FOLDER has train.SRC, train.TGT, valid.SRC and valid.TGT: one sentence a line, its tokens (words, or pieces of words)
between spaces. The recipe is that of fairseq's translation: Adam, a learning rate that rises and then falls with the
square root of the step, and smoothed labels.
"""

import collections
import math
import os
import sys

import torch
from torch import nn
from training import Training, World, options

PAD, BEGIN, END, UNKNOWN = range(4)


class Words:
    """The vocabulary of one language, from the sentences of the training."""

    def __init__(self, sentences, least):
        found = collections.Counter(word for one in sentences for word in one.split())
        kept = sorted(word for word, count in found.items() if count >= least)
        self.words = ["<pad>", "<begin>", "<end>", "<unknown>", *kept]
        self.numbers = {word: number for number, word in enumerate(self.words)}

    def encode(self, sentence):
        return [self.numbers.get(word, UNKNOWN) for word in sentence.split()]

    def decode(self, numbers):
        return " ".join(self.words[number] for number in numbers)


def lines(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read().splitlines()


def padded(rows, device):
    """Return rows of numbers as one tensor, filled up with PAD."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows], device=device)


class Translator(nn.Module):
    """Encoder and decoder, each with its own vocabulary."""

    def __init__(self, source, target, given):
        super().__init__()
        self.width = given.width
        self.source, self.target = (
            nn.Embedding(source, given.width),
            nn.Embedding(target, given.width),
        )
        shape = {"nhead": given.heads, "dim_feedforward": 4 * given.width, "batch_first": True}
        self.core = nn.Transformer(
            given.width,
            num_encoder_layers=given.layers,
            num_decoder_layers=given.layers,
            dropout=given.dropout,
            **shape,
        )
        self.core.encoder.use_nested_tensor = False
        self.score = nn.Linear(given.width, target)

    def placed(self, table, numbers):
        """Return embeddings with sines of each position, as in Attention Is All You Need."""
        at = torch.arange(numbers.shape[1], device=numbers.device).unsqueeze(1)
        speed = torch.arange(0, self.width, 2, device=numbers.device)
        angles = at * torch.exp(speed * (-math.log(10000.0) / self.width))
        waves = torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
        return table(numbers) * self.width**0.5 + waves.to(table.weight.dtype)

    def forward(self, source, target):
        later = torch.ones(target.shape[1], target.shape[1], device=target.device).triu(1).bool()
        hidden = self.core(
            self.placed(self.source, source),
            self.placed(self.target, target),
            tgt_mask=later,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.score(hidden)

    @torch.no_grad()
    def translate(self, rows, device, longest):
        """Return the likeliest next words, one after the other, for each row."""
        source = padded(rows, device)
        found = torch.full((len(rows), 1), BEGIN, device=device)
        for _ in range(longest):
            best = self(source, found)[:, -1].argmax(1, keepdim=True)
            found = torch.cat([found, best], 1)
            if bool((found == END).any(1).all()):
                break
        ends = [row.index(END) if END in row else len(row) for row in found.tolist()]
        return [row[1:end] for row, end in zip(found.tolist(), ends, strict=True)]


def grams_of(words, length):
    return [tuple(words[at : at + length]) for at in range(len(words) - length + 1)]


def bleu(found, wanted):
    """Return the BLEU of sentences against one reference each, from 0 to 100 (Papineni et al., 2002)."""
    logs = 0.0
    for n in range(1, 5):
        right = count = 0
        for one, other in zip(found, wanted, strict=True):
            grams, known = (collections.Counter(grams_of(text.split(), n)) for text in (one, other))
            right += sum((grams & known).values())
            count += sum(grams.values())
        if not right:
            return 0.0
        logs += math.log(right / count) / 4
    sizes = [sum(len(text.split()) for text in texts) for texts in (found, wanted)]
    return 100 * math.exp(logs + min(0.0, 1 - sizes[1] / sizes[0]))


def main():
    parser = options(__doc__.partition("\n")[0])
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--least", type=int, default=1, help="rarer words are unknown")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warm-up", type=int, default=4000)
    given = parser.parse_args()
    world = World()
    texts = {
        (part, side): lines(given.data, f"{part}.{side}")
        for part in ("train", "valid")
        for side in (given.source, given.target)
    }
    there = Words(texts["train", given.source], given.least)
    here = Words(texts["train", given.target], given.least)
    source = [[*there.encode(text), END] for text in texts["train", given.source]]
    target = [[*here.encode(text), END] for text in texts["train", given.target]]
    torch.manual_seed(1)
    model = Translator(len(there.words), len(here.words), given)
    smooth = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1, reduction="sum")

    def rate(step):
        return given.lr * min(step / given.warm_up, (given.warm_up / step) ** 0.5)

    training = Training(world, model, given, rate)

    def loss_of(mine):
        seen = padded([[BEGIN, *target[i][:-1]] for i in mine], world.device)
        scores = model(padded([source[i] for i in mine], world.device), seen)
        return smooth(
            scores.flatten(0, 1), padded([target[i] for i in mine], world.device).flatten()
        )

    told = training.run(len(source), loss_of, lambda whole: sum(len(target[i]) for i in whole))
    if not told and world.rank == 0:
        model.eval()
        rows = [[*there.encode(text), END] for text in texts["valid", given.source]]
        longest = 2 * max(map(len, rows))
        found = []
        for at in range(0, len(rows), 64):
            found += model.translate(rows[at : at + 64], world.device, longest)
        found = [here.decode(numbers) for numbers in found]
        with open(os.path.join(given.out, "translations.txt"), "w", encoding="utf-8") as file:
            file.writelines(text + "\n" for text in found)
        print(
            f"translated={len(found)} bleu={bleu(found, texts['valid', given.target]):.2f}",
            flush=True,
        )
    world.close()
    return told


if __name__ == "__main__":
    sys.exit(main())
