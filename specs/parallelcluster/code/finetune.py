"""Fine-tune BERT to say whether two sentences mean the same (MRPC of GLUE); see training.py for the rest.

FOLDER has train.tsv and dev.tsv as MRPC has them. The model is a name such as bert-base-cased, which transformers
downloads, or a folder that has one; without weights in it, they are drawn.
"""

import csv
import glob
import os
import sys

import torch
from torch.nn.functional import cross_entropy
from training import Training, World, options
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer


def read(path):
    """Return the labels and the pairs of sentences of a file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [int(row[0]) for row in rows], [(row[3], row[4]) for row in rows]


class Pairs:
    """Labels and sentences, as the model takes them."""

    def __init__(self, path, tokenizer, device):
        self.labels, self.pairs = read(path)
        self.tokenizer, self.device = tokenizer, device

    def batch(self, chosen):
        texts = [[self.pairs[i][k] for i in chosen] for k in (0, 1)]
        found = self.tokenizer(
            *texts, padding=True, truncation=True, max_length=128, return_tensors="pt"
        )
        labels = torch.tensor([self.labels[i] for i in chosen], device=self.device)
        return found.to(self.device), labels


def evaluate(model, pairs):
    """Return accuracy and F1, the two figures of MRPC."""
    model.eval()
    right = both = found = wanted = 0
    for at in range(0, len(pairs.labels), 64):
        inputs, labels = pairs.batch(range(at, min(at + 64, len(pairs.labels))))
        with torch.no_grad():
            answers = model(**inputs).logits.argmax(1)
        right += int((answers == labels).sum())
        both += int((answers * labels).sum())
        found, wanted = found + int(answers.sum()), wanted + int(labels.sum())
    return right / len(pairs.labels), 2 * both / max(1, found + wanted)


def load(name):
    """Return a model that was trained before; of a folder with a configuration alone, one with drawn weights."""
    shape = AutoConfig.from_pretrained(name, num_labels=2)
    if os.path.isdir(name) and not glob.glob(os.path.join(name, "*.safetensors")):
        return AutoModelForSequenceClassification.from_config(shape)
    return AutoModelForSequenceClassification.from_pretrained(name, config=shape)


def main():
    parser = options(__doc__.partition("\n")[0])
    parser.add_argument("--model", default="bert-base-cased")
    parser.add_argument("--lr", type=float, default=2e-5)
    given = parser.parse_args()
    world = World()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    torch.manual_seed(1)  # the layer above BERT is drawn
    model = load(given.model)
    train, dev = (
        Pairs(os.path.join(given.data, name), tokenizer, world.device)
        for name in ("train.tsv", "dev.tsv")
    )
    steps = given.epochs * -(-len(train.labels) // given.batch)
    training = Training(world, model, given, lambda step: given.lr * (1 - (step - 1) / steps))

    def loss_of(mine):
        inputs, labels = train.batch(mine)
        return cross_entropy(model(**inputs).logits, labels, reduction="sum")

    told = training.run(len(train.labels), loss_of, len)
    if not told and world.rank == 0:
        accuracy, f1 = evaluate(model, dev)
        model.save_pretrained(os.path.join(given.out, "bert"))
        tokenizer.save_pretrained(os.path.join(given.out, "bert"))
        print(f"eval_accuracy={accuracy:.4f} eval_f1={f1:.4f}", flush=True)
    world.close()
    return told


if __name__ == "__main__":
    sys.exit(main())
