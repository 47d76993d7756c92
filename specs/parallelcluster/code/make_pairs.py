"""Make pairs of sentences and the shape of a small BERT, so that fine-tuning can be tried without a download.

    python make_pairs.py FOLDER [--train 600] [--dev 120]

The files are those of MRPC in GLUE (train.tsv and dev.tsv: whether the sentences mean the same, two numbers, and the
sentences), and the folder `bert` is a model whose weights finetune.py draws.
"""

import argparse
import json
import os
import random
import sys

WHO = "the bank,a company,the court,one analyst,the mayor,a student".split(",")
DID = {"said": "stated", "bought": "acquired", "began": "started", "showed": "presented"}
WHAT = "the plan,a new house,its report,the second part,an old map,many shares".split(",")
WHEN = "on monday,last year,in the morning,two days ago".split(",")


def pair(dice):
    """Return whether two sentences mean the same, and the sentences."""
    who, (one, other) = dice.choice(WHO), dice.choice(sorted(DID.items()))
    what, when = dice.choice(WHAT), dice.choice(WHEN)
    same = dice.random() < 0.5
    second = f"{when} {who} {other} {what}" if same else f"{when} {who} never {other} {what}"
    return int(same), f"{who} {one} {what} {when}", second


def save_pairs(path, count, dice):
    with open(path, "w", encoding="utf-8") as file:
        file.write("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        for number in range(count):
            same, one, two = pair(dice)
            file.write(f"{same}\t{2 * number}\t{2 * number + 1}\t{one}\t{two}\n")


def save_model(folder):
    """Write the vocabulary of all words above, and the shape of a network of two layers; its weights are drawn."""
    texts = [*WHO, *DID, *DID.values(), *WHAT, *WHEN, "never"]
    words = sorted({word for text in texts for word in text.split()})
    shape = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": 5 + len(words),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(shape, file, indent=1)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(w + "\n" for w in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--train", type=int, default=600)
    parser.add_argument("--dev", type=int, default=120)
    given = parser.parse_args()
    os.makedirs(given.folder, exist_ok=True)
    dice = random.Random(1)
    save_pairs(os.path.join(given.folder, "train.tsv"), given.train, dice)
    save_pairs(os.path.join(given.folder, "dev.tsv"), given.dev, dice)
    save_model(os.path.join(given.folder, "bert"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
