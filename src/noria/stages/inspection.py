"""What of a recipe's files would stop a run at its start, found without torch and without reading a weight."""

from __future__ import annotations

import os
from pathlib import Path

from noria.core.errors import UserError
from noria.core.recipe import Recipe
from noria.core.recipe_phases import Distilled, SftPhase
from noria.models.headers import check_config, embedding_rows, read_shapes
from noria.stages.lines import check_file
from noria.stages.models import resolve_model
from noria.tokens.ends import read_end_ids
from noria.tokens.light import LightTokenizer, read_object
from noria.tokens.renderer import Renderer


def check_files(recipe: Recipe) -> None:
    """Models, their tokenizers and templates, teachers in folders, and supervised data.

    Raises:
        UserError: every fault found, a line each: field, value and fix.
    """
    faults = _runs_dir(Path(recipe.runs_dir))
    student: LightTokenizer | None = None
    try:
        student = check_model(recipe.student.model, "student.model")
    except UserError as fault:
        faults.append(str(fault))
    for name, phase in recipe.phase.items():
        if not phase.steps:
            continue
        try:
            if isinstance(phase, Distilled) and phase.auxiliary is not None and phase.auxiliary.model != "weak":
                check_model(phase.auxiliary.model, f"phase.{name}.auxiliary.model")
            for file in phase.data if isinstance(phase, SftPhase) else ():
                check_file(Path(file), f"phase.{name}.data")
        except UserError as fault:
            faults.append(str(fault))
    for name, teacher in recipe.teachers.items():
        path = teacher.options.get("path")
        if teacher.type == "frozen" and isinstance(path, str):
            try:
                _check_teacher(Path(path), f"teachers.{name}.path", student)
            except UserError as fault:
                faults.append(str(fault))
    if faults:
        raise UserError("\n".join(faults))


def check_model(name: str, field: str) -> LightTokenizer:
    """A model that will sample: whole, of one piece, with a template under which a conversation only grows.

    Raises:
        UserError: it is not; names the field, the file and the fix.
    """
    folder = resolve_model(name, field)
    shapes = read_shapes(folder, field)
    check_config(folder, shapes, field)
    try:
        tokenizer = LightTokenizer(folder)
        if not tokenizer.is_told:
            return tokenizer  # its class in transformers knows more than its files
        renderer = Renderer(tokenizer, read_end_ids(folder, tokenizer))
    except UserError as fault:
        raise UserError(f"{field} = {name!r}: {fault}") from fault
    rows = embedding_rows(shapes)
    beyond = [token for token in renderer.end_ids if rows is not None and token >= rows]
    if beyond:
        raise UserError(
            f"{field} must fit together: token {beyond[0]} ends a turn and {str(folder)!r} has embeddings for {rows} "
            "tokens - take tokenizer and weights of one model"
        )
    return tokenizer


def _runs_dir(folder: Path) -> list[str]:
    """What is wrong with the place for run folders; it is made where it does not exist yet."""
    try:
        there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    except OSError as fault:
        return [
            f"runs_dir must be a folder that can be written: got {str(folder)[:80]!r} ({fault.strerror}) - name another"
        ]
    if usable:
        return []
    return [
        f"runs_dir must be a folder that can be written: got {str(folder)!r}, and {str(there)!r} is none - name another"
    ]


def _check_teacher(folder: Path, field: str, student: LightTokenizer | None) -> None:
    """A frozen teacher: whole, and its ids mean what the student's mean."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{field} must be the folder of a checkpoint: {str(folder)!r} has no config.json - correct it")
    shapes = read_shapes(folder, field)
    if not shapes and not list(folder.glob("*.bin")):
        raise UserError(f"{field} must be the folder of a checkpoint: {str(folder)!r} has no weights - correct it")
    size = check_config(folder, shapes, field).get("vocab_size")
    if student is None:
        return
    theirs, rows = _vocabulary(folder), embedding_rows(shapes)
    if rows is None and isinstance(size, int):
        rows = size
    for token, number in sorted(student.vocabulary().items(), key=lambda item: item[1]):
        if theirs.get(token, number) != number or (rows is not None and token not in theirs and number >= rows):
            there = f"{theirs[token]}" if token in theirs else "none"
            raise UserError(
                f"{field} must have the student's vocabulary: token {token!r} is {number} for student.model, {there} "
                f"in {str(folder)!r} - choose a teacher of the student's family"
            )


def _vocabulary(folder: Path) -> dict[str, int]:
    """Tokens and their ids, of whichever files tell them; empty where none does."""
    if (folder / "tokenizer.json").is_file():
        return LightTokenizer(folder).vocabulary()
    found = read_object(folder / "vocab.json") | read_object(folder / "added_tokens.json")
    lines = folder / "vocab.txt"
    if lines.is_file():
        try:
            words = lines.read_text(encoding="utf-8").rstrip("\n").split("\n")
        except (OSError, UnicodeDecodeError) as fault:
            raise UserError(f"model must be whole: {str(lines)!r} cannot be read ({fault}) - copy it again") from fault
        found |= {word: number for number, word in enumerate(words)}
    return {token: number for token, number in found.items() if isinstance(number, int)}
