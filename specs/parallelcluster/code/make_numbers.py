"""Make a small set of sentences in two languages, so that translation can be tried without a download.

    python make_numbers.py FOLDER [--train 4000] [--valid 200]

The sentences are numbers in English and in German, where the units come before the tens ("twenty one" is "ein und
zwanzig"). The files are those of any other set, one sentence a line: train.en, train.de, valid.en and valid.de.
"""

import argparse
import os
import random
import sys

EN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
DE = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"
).split()
DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english(number):
    """Return a number below a million in words.

    >>> english(4021), english(300)
    ('four thousand twenty one', 'three hundred')
    """
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = english(number % size) if number % size else ""
            return f"{english(number // size)} {name} {rest}".strip()
    if number < len(EN):
        return EN[number]
    ten, one = divmod(number, 10)
    return f"{EN_TENS[ten - 2]} {EN[one] if one else ''}".strip()


def german(number, last=True):
    """Return a number below a million in words; "eins" is "ein" where another word follows.

    >>> german(4021), german(101)
    ('vier tausend ein und zwanzig', 'ein hundert eins')
    """
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if number >= size:
            rest = german(number % size) if number % size else ""
            return f"{german(number // size, last=False)} {name} {rest}".strip()
    if number < len(DE):
        return "ein" if number == 1 and not last else DE[number]
    ten, one = divmod(number, 10)
    return f"{german(one, last=False)} und {DE_TENS[ten - 2]}" if one else DE_TENS[ten - 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--valid", type=int, default=200)
    parser.add_argument("--below", type=int, default=10000)
    given = parser.parse_args()
    numbers = random.Random(1).sample(range(given.below), given.train + given.valid)
    os.makedirs(given.folder, exist_ok=True)
    for part, of in (("train", numbers[: given.train]), ("valid", numbers[given.train :])):
        for language, words in (("en", english), ("de", german)):
            path = os.path.join(given.folder, f"{part}.{language}")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(words(number) + "\n" for number in of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
