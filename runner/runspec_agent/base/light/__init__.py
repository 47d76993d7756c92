"""Small modules that stand for modules of the standard library whose import takes longer than the work of a small task.

`job.bytecode_cache` puts them in place of the originals, in modules that use no more of those than these have.
"""
