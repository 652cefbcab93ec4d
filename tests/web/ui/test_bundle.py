"""The page's modules as one script."""

import shutil
import subprocess

import pytest

from web.ui.bundle import bundle, imported_modules

MODULES = {
    "main.js": 'import { next as later, Count } from "./parts/count.js";\n'
    'import * as log from "./log.js";\n\n'
    "const count = new Count();\n"
    "later(count);\n"
    "log.lines.push(`main ${count.value}`);\n"
    'console.log(log.lines.join("; "));\n',
    "parts/count.js": 'import { lines } from "../log.js";\n\n'
    'lines.push("count");\n\n'
    "export class Count {\n  value = START;\n}\n\n"
    "const START = 1; // declared after the class that uses it\n\n"
    "export function next(count) {\n  count.value += 1;\n}\n",
    "log.js": 'export const lines = [new URL("x.js", import.meta.url).pathname.split("/").at(-1)];\n\n'
    "export async function unused() {}\n",
    "first.js": 'import { lines } from "./log.js";\nlines.push("first");\n',
}


def test_modules_follow_those_that_they_import() -> None:
    assert imported_modules("main.js", MODULES) == ["log.js", "parts/count.js", "main.js"]


def test_script_runs_each_module_once_and_gives_them_what_they_import() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    script = bundle(["first.js", "main.js"], MODULES)
    run = subprocess.run([node, "--input-type=module"], input=script, capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("x.js; first; count; main 2\n", "")


@pytest.mark.parametrize(
    "source",
    ['import x from "./log.js";\n', 'import "./log.js";\n', "export default 1;\n", "export let a = 1;\n"],
)
def test_other_imports_and_exports_are_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"^odd\.js: (import|export)"):
        bundle(["odd.js"], {**MODULES, "odd.js": source})
