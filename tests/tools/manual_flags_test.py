"""The manual's tables of flags are those of the programs: `manual_flags_test.py BIN --regenerate` rewrites them."""
import re
import sys

import programs

PAGES = programs.SOURCE / "tools" / "manual"
PROGRAMS = ("rannc-compile", "rannc-run")
TABLE = re.compile(r"(<!-- (rannc-\w+) --flag-tables: ([^>]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def tables(program):
    """Text by name of the group."""
    done = programs.run(program, "--flag-tables")
    assert done.returncode == 0, done.stderr
    parts = re.split(r"^### (.+)\n", done.stdout, flags=re.MULTILINE)[1:]
    return {name: text.strip() + "\n" for name, text in zip(parts[::2], parts[1::2])}


class Manual(programs.ProgramTest):
    def test_tables_are_those_of_the_programs(self):
        found = {(program, group): text for page in sorted(PAGES.glob("*.md"))
                 for _, program, group, text, _ in TABLE.findall(page.read_text())}
        printed = {(program, group): text for program in PROGRAMS for group, text in tables(program).items()}
        self.assertEqual(set(found), set(printed), "each group has one table in tools/manual")
        for key, text in printed.items():
            self.assertEqual(found[key], text, f"{key}: run tests/tools/manual_flags_test.py BIN --regenerate")

    def test_links_lead_somewhere(self):
        for page in sorted(PAGES.glob("*.md")):
            for link, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", "".join(text for *_, text, _ in TABLE.findall(page.read_text()))):
                target = (page.parent / link).resolve() if link else page
                self.assertTrue(target.exists(), f"{page.name}: {link}")
                heads = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)}
                self.assertIn(anchor[1:] if anchor else next(iter(heads)), heads, f"{page.name}: {link}{anchor}")


def regenerate():
    all_tables = {program: tables(program) for program in PROGRAMS}
    for page in PAGES.glob("*.md"):
        page.write_text(TABLE.sub(lambda match: match[1] + all_tables[match[2]][match[3]] + match[5], page.read_text()))


if __name__ == "__main__":
    if "--regenerate" in sys.argv:
        programs.bin_folder = programs.pathlib.Path(sys.argv[1])
        regenerate()
    else:
        programs.main()
