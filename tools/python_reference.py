"""The page of the Python interface, made from the sources of the package: signatures and docstrings of all that is public.

Nothing is imported, so the package need not be compiled.
"""
import ast
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef


class Undocumented(Exception):
    """A public name without a docstring, or one that is nowhere defined."""


def exported(package: Path) -> list[str]:
    """The names of a package's `__all__`."""
    for node in ast.parse((package / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("_")]
    raise Undocumented(f"{package}: no __all__")


def definitions(package: Path) -> dict[str, Definition]:
    """Classes and functions of the modules of a package, those of its stub files included, by name."""
    found = {}
    for module in [*sorted(package.glob("*.pyi")), *sorted(package.glob("*.py"))]:
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, Definition):
                found[node.name] = node
    return found


def signature(node: ast.FunctionDef, method: bool) -> str:
    """The signature as it is called: without `self`."""
    arguments = ast.parse(ast.unparse(node)).body[0].args
    bare = any(getattr(mark, "id", "") == "staticmethod" for mark in node.decorator_list)
    if method and not bare:
        (arguments.posonlyargs or arguments.args).pop(0)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(arguments)}){returns}"


def marked(text: str) -> str:
    """A docstring as Markdown: indented parts are code already."""
    return text.strip() + "\n"


def member(owner: str, node: ast.FunctionDef) -> str:
    """A method or property of a class."""
    marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
    about = ast.get_docstring(node)
    if "property" in marks or "cached_property" in marks:
        returns = f": {ast.unparse(node.returns)}" if node.returns else ""
        head = f"`{owner}.{node.name}{returns}`"
    else:
        head = f"`{owner}.{signature(node, True)}`"
    return f"{head}\n\n{marked(about) if about else ''}"


def entry(name: str, node: Definition | None, prefix: str) -> str:
    """A class with its public members, or a function."""
    if node is None:
        raise Undocumented(f"{prefix}{name}: exported and not defined")
    about = ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        return f"\n### {prefix}{name}\n\n`{prefix}{signature(node, False)}`\n\n{marked(about or '')}"
    if not about:
        raise Undocumented(f"{prefix}{name}: no docstring")
    out = f"\n### {prefix}{name}\n\n{marked(about)}"
    fields = [f"`{ast.unparse(field)}`" for field in node.body if isinstance(field, ast.AnnAssign) and not field.target.id.startswith("_")]
    if fields:
        out += "\nFields: " + ", ".join(fields) + ".\n"
    methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
    made = next((item for item in methods if item.name == "__init__"), None)
    if made:
        out += f"\n`{name}({ast.unparse(without_self(made))})`\n"
    for item in methods:
        setter = any(getattr(mark, "attr", "") == "setter" for mark in item.decorator_list)
        if not item.name.startswith("_") and not setter:
            out += f"\n{member(name, item)}"
    return out


def without_self(node: ast.FunctionDef) -> ast.arguments:
    arguments = ast.parse(ast.unparse(node)).body[0].args
    (arguments.posonlyargs or arguments.args).pop(0)
    return arguments


def elsewhere(folder: Path) -> dict[str, str]:
    """Names that a package takes from packages inside it, each with that package."""
    imports = [node for node in ast.parse((folder / "__init__.py").read_text()).body if isinstance(node, ast.ImportFrom)]
    inside = [node for node in imports if node.level == 1 and node.module and (folder / node.module).is_dir()]
    return {name.name: node.module for node in inside for name in node.names}


def entries_of(module: Path, title: str) -> str:
    """A module that is exported whole: its docstring, and its public functions."""
    tree = ast.parse(module.read_text())
    about = ast.get_docstring(tree)
    if not about:
        raise Undocumented(f"{title}: no docstring")
    public = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    calls = "".join(f"\n`{title}.{signature(node, False)}`\n\n{marked(ast.get_docstring(node) or '')}" for node in public)
    return f"\n### {title}\n\n{marked(about)}{calls}"


def page(package: Path) -> str:
    """The whole page. `package` is the folder of `pellucid`; its subpackages with an `__all__` follow it."""
    out = "# Python interface\n\nMade from the docstrings of the package; `import pellucid as pl`. How to use it: "
    out += "[use drives from Python](../how-to/use-from-python.md).\n"
    folders = [package, *sorted(path.parent for path in package.glob("*/__init__.py"))]
    for folder in folders:
        module = ".".join(folder.relative_to(package.parent).parts)
        about = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
        if not about:
            raise Undocumented(f"{module}: no docstring")
        out += f"\n## {module}\n\n{marked(about)}"
        known = definitions(folder)
        for name in exported(folder):
            if name.isupper():
                continue
            elif (folder / name).is_dir() or name in elsewhere(folder):
                place = f"{module}.{elsewhere(folder).get(name, name)}"
                out += f"\n### {module}.{name}\n\nSee [{place}](#{place.replace('.', '')}).\n"
            elif (folder / f"{name}.py").exists():
                out += entries_of(folder / f"{name}.py", f"{module}.{name}")
            else:
                out += entry(name, known.get(name), f"{module}.")
    plugin = ast.get_docstring(ast.parse((package / "pytest_plugin.py").read_text()))
    return out + f"\n## pytest\n\n{marked(plugin or '')}"
