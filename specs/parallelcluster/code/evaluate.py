"""Print how well a fine-tuned BERT tells pairs of sentences apart: evaluate.py DATA MODEL, as finetune.py wrote it."""

import os
import sys

from finetune import Pairs, evaluate, load
from training import World
from transformers import AutoTokenizer


def main(data, model):
    world = World()
    pairs = Pairs(os.path.join(data, "dev.tsv"), AutoTokenizer.from_pretrained(model), world.device)
    accuracy, f1 = evaluate(load(model).to(world.device), pairs)
    print(f"accuracy={accuracy:.4f} f1={f1:.4f} of {len(pairs.labels)} pairs", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
