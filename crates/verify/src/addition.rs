//! Which new files would change how the protected tests run.
//!
//! An agent may add code, tests, crates and packages. It may not add what is loaded *around* the tests: files that a
//! runner or an interpreter reads by their name alone. Only names that exist for that purpose are listed, so that an
//! ordinary addition is never hidden from the checks. `build.rs`, `Cargo.toml`, `package.json` and the like are
//! ordinary: they build the code under test, and their effect shows in the number of tests.

use std::collections::BTreeSet;

/// Module names of the standard library of CPython 3.11 to 3.14 (`sys.stdlib_module_names`), without those that no
/// runner imports and that projects use for themselves (`test`).
const STDLIB: &str = include_str!("stdlib.txt");

/// Modules that test runners import, with what they depend on.
const RUNNER_MODULES: [&str; 16] = [
    "_pytest",
    "colorama",
    "coverage",
    "exceptiongroup",
    "execnet",
    "iniconfig",
    "nose",
    "nose2",
    "packaging",
    "pluggy",
    "py",
    "pygments",
    "pytest",
    "tomli",
    "typing_extensions",
    "xdist",
];

/// Names that matter at any depth, with the reason that evidence gives.
const NAMES: [(&str, &str); 37] = [
    ("conftest.py", "pytest loads it before the tests beside and below it"),
    ("sitecustomize.py", "Python runs it before anything else"),
    ("usercustomize.py", "Python runs it before anything else"),
    ("pyvenv.cfg", "it decides where Python finds its modules"),
    ("pytest.ini", "it configures pytest"),
    (".pytest.ini", "it configures pytest"),
    ("pytest.toml", "it configures pytest"),
    (".pytest.toml", "it configures pytest"),
    ("tox.ini", "it configures tox and pytest"),
    ("tox.toml", "it configures tox"),
    ("noxfile.py", "it decides what nox runs"),
    ("nose2.cfg", "it configures nose2"),
    ("unittest.cfg", "it configures nose2"),
    (".coveragerc", "it can load plug-ins into the test process"),
    (".mocharc.cjs", "it configures mocha"),
    (".mocharc.js", "it configures mocha"),
    (".mocharc.mjs", "it configures mocha"),
    (".mocharc.json", "it configures mocha"),
    (".mocharc.jsonc", "it configures mocha"),
    (".mocharc.yml", "it configures mocha"),
    (".mocharc.yaml", "it configures mocha"),
    (".npmrc", "it decides how npm runs scripts"),
    (".yarnrc.yml", "it decides how yarn runs scripts"),
    (".pnpmfile.cjs", "pnpm runs it"),
    (".babelrc", "Jest compiles the tests as it says"),
    (".babelrc.js", "Jest compiles the tests as it says"),
    (".babelrc.cjs", "Jest compiles the tests as it says"),
    (".babelrc.json", "Jest compiles the tests as it says"),
    (".swcrc", "the tests are compiled as it says"),
    (".rspec", "it configures rspec"),
    ("go.work", "it decides which modules go builds"),
    ("rust-toolchain", "it decides which toolchain cargo runs"),
    ("rust-toolchain.toml", "it decides which toolchain cargo runs"),
    ("phpunit.xml", "it configures phpunit"),
    ("GNUmakefile", "make prefers it to the makefile that was there"),
    ("makefile", "make prefers it to the makefile that was there"),
    ("BSDmakefile", "make prefers it to the makefile that was there"),
];

/// Names of which only the beginning is fixed: `jest.config.ts`.
const CONFIGS: [&str; 8] = [
    "ava.config.",
    "babel.config.",
    "cypress.config.",
    "jest.config.",
    "karma.conf.",
    "playwright.config.",
    "vitest.config.",
    "vitest.workspace.",
];

/// Files below a folder of a fixed name.
const IN_FOLDER: [(&str, &str, &str); 3] = [
    (".cargo", "config.toml", "it can replace cargo's runner and flags"),
    (".cargo", "config", "it can replace cargo's runner and flags"),
    (".config", "nextest.toml", "it configures nextest"),
];

/// Files that are ordinary unless they configure a runner. The marks are looked for with blanks and quotes removed;
/// `[tool]` stands for every way to write the table further down.
const TABLES: [(&str, &[&str], &str); 8] = [
    ("pyproject.toml", &["tool.pytest", "[tool]"], "it configures pytest"),
    ("setup.cfg", &["[tool:pytest]"], "it configures pytest"),
    ("vite.config.js", VITE, "it configures Vitest"),
    ("vite.config.mjs", VITE, "it configures Vitest"),
    ("vite.config.cjs", VITE, "it configures Vitest"),
    ("vite.config.ts", VITE, "it configures Vitest"),
    ("vite.config.mts", VITE, "it configures Vitest"),
    ("vite.config.cts", VITE, "it configures Vitest"),
];

/// How the settings for Vitest stand in those of Vite.
const VITE: &[&str] = &["test:", "test=", "test]", "vitest", "...", "import(", "require("];

/// Files that are nothing but a runner's, or that Python runs before the tests of a folder: kept and put back like
/// protected ones when they existed before.
pub(crate) fn is_runners_own(path: &str) -> bool {
    match name(path) {
        "conftest.py" | "sitecustomize.py" | "usercustomize.py" | "pytest.ini" | ".pytest.ini" => true,
        "__init__.py" => is_in_test_folder(path),
        _ => false,
    }
}

/// Beside code under test, an `__init__.py` belongs to that code; below a folder for tests it belongs to them.
fn is_in_test_folder(path: &str) -> bool {
    folder(path).split('/').any(|part| part == "tests" || part == "test")
}

/// Whether the content of a file decides, so that `changes_tests` needs to see it.
pub(crate) fn needs_content(path: &str) -> bool {
    TABLES.iter().any(|(file, ..)| name(path) == *file)
}

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    /// A regular file.
    File,
    /// A symbolic link, to a file or a folder.
    Link,
}

/// The protected files, as what stands beside them matters.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Protected Python modules without their suffix: `tests/test_a`.
    modules: BTreeSet<String>,
    /// Folders from which protected tests or their runner import: the root, `src`, `lib`, and every folder that
    /// holds a protected file below it.
    import_roots: BTreeSet<String>,
    /// Folders that hold a protected Python module, directly or further down.
    test_folders: BTreeSet<String>,
}

impl Surroundings {
    /// Looks at the paths of the protected files.
    pub(crate) fn of<'a>(protected: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = Self::default();
        found.import_roots.extend(["", "src", "lib"].map(str::to_owned));
        for path in protected.into_iter().filter(|path| !path.starts_with('.')) {
            if let Some(module) = path.strip_suffix(".py") {
                found.modules.insert(module.to_owned());
                found.test_folders.extend(ancestors(path).filter(|folder| !folder.is_empty()).map(str::to_owned));
            }
            found.import_roots.extend(ancestors(path).map(str::to_owned));
        }
        found
    }

    /// Whether what lies at `path` may change how tests run, whatever it holds.
    pub(crate) fn may_change_tests(&self, path: &str, node: Node) -> bool {
        needs_content(path) || self.changes_tests(path, node, "").is_some()
    }

    /// Why an addition at `path` would change how tests run; none when it would not. `content` matters only where
    /// `needs_content` says so.
    pub(crate) fn changes_tests(&self, path: &str, node: Node, content: &str) -> Option<String> {
        let file = name(path);
        if let Some((_, why)) = NAMES.iter().find(|(name, _)| *name == file) {
            return Some((*why).to_owned());
        }
        let above = name(folder(path));
        if let Some((.., why)) = IN_FOLDER.iter().find(|(folder, name, _)| *folder == above && *name == file) {
            return Some((*why).to_owned());
        }
        if CONFIGS.iter().any(|start| file.starts_with(start)) {
            return Some("it configures a test runner".to_owned());
        }
        if let Some((_, marks, why)) = TABLES.iter().find(|(name, ..)| *name == file) {
            let bare: String = content.chars().filter(|c| !c.is_whitespace() && !"\"'".contains(*c)).collect();
            return marks.iter().any(|mark| bare.contains(mark)).then(|| (*why).to_owned());
        }
        if file.ends_with(".pth") {
            return Some("Python runs its lines before anything else".to_owned());
        }
        if file == "entry_points.txt" && (above.ends_with(".dist-info") || above.ends_with(".egg-info")) {
            return Some("runners load the plug-ins that it names".to_owned());
        }
        self.shadows(path, node)
    }

    /// Python takes the first module of a name that it finds, and a package or a compiled module before a source.
    fn shadows(&self, path: &str, node: Node) -> Option<String> {
        let module = module(path, node)?;
        if self.modules.contains(module) && path.strip_suffix(".py") != Some(module) {
            return Some("Python would load it instead of a protected test".to_owned());
        }
        let is_package = name(path).starts_with("__init__.") && is_in_test_folder(path);
        if is_package && self.test_folders.contains(folder(path)) {
            return Some("Python runs it before the tests in its folder".to_owned());
        }
        let top = name(module);
        let known = RUNNER_MODULES.contains(&top) || top.starts_with("pytest_") || STDLIB.lines().any(|one| one == top);
        (known && self.import_roots.contains(folder(module)))
            .then(|| format!("it shadows the module `{top}` that test runners import"))
    }
}

/// The module that Python would find at `path`, with its folder: `a/b.py`, `a/b.cpython-311-….so`, `a/b/__init__.py`
/// and a link `a/b` (to a package) are all `a/b`.
fn module(path: &str, node: Node) -> Option<&str> {
    let file = name(path);
    let Some((stem, suffix)) = file.split_once('.') else { return (node == Node::Link).then_some(path) };
    let is_python = suffix == "py" || suffix == "pyc" || suffix == "so" || suffix.ends_with(".so");
    if !is_python || stem.is_empty() {
        return None;
    }
    if stem == "__init__" {
        return Some(folder(path));
    }
    path.get(..path.len() - file.len() + stem.len())
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folders above `path`, the nearest first, the root (`""`) last.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder(path)), |above| (!above.is_empty()).then(|| folder(above)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(path: &str, content: &str) -> bool {
        let around = Surroundings::of(["tests/test_a.py", "app/unit/test_b.py", ".git/config"]);
        around.changes_tests(path, if path == "unittest" { Node::Link } else { Node::File }, content).is_some()
    }

    #[test]
    fn what_is_loaded_around_the_tests_is_left_out() {
        for path in [
            "conftest.py",
            "tests/conftest.py",
            "a/b/c/conftest.py",
            "sitecustomize.py",
            "usercustomize.py",
            "x.pth",
            ".venv/lib/python3.11/site-packages/evil.pth",
            "pytest.ini",
            "tests/pytest.ini",
            "tox.ini",
            "jest.config.ts",
            "packages/a/vitest.config.mts",
            ".babelrc",
            ".mocharc.yml",
            ".cargo/config.toml",
            "crates/a/.cargo/config",
            ".config/nextest.toml",
            "rust-toolchain.toml",
            "go.work",
            "GNUmakefile",
            "evil.egg-info/entry_points.txt",
            "unittest.py",
            "unittest/__init__.py",
            "unittest",
            "pytest.py",
            "_pytest/__init__.py",
            "pluggy.so",
            "random.cpython-311-x86_64-linux-gnu.so",
            "tests/json.py",
            "app/re.py",
            "src/site.py",
            "pytest_evil.py",
            "tests/test_a/__init__.py",
            "tests/test_a.cpython-311-x86_64-linux-gnu.so",
            "tests/__init__.py",
            "tests/test_a.pyc",
        ] {
            assert!(changes(path, ""), "{path} must be left out");
        }
        assert!(changes("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-k nothing'\n"));
        assert!(changes("pyproject.toml", "[ tool . \"pytest\" . ini_options ]\n"));
        assert!(changes("pyproject.toml", "[tool]\npytest.ini_options.addopts = '-k nothing'\n"));
        assert!(changes("setup.cfg", "[tool:pytest]\n"));
        assert!(changes("vite.config.ts", "export default { test: { setupFiles: ['./x.js'] } }\n"));
    }

    #[test]
    fn ordinary_additions_stay() {
        for path in [
            "pricing.py",
            "tests/test_new.py",
            "app/models/types.py",
            "app/parser/ast.py",
            "lib/shop/calendar.py",
            "newpkg/__init__.py",
            "app/__init__.py",
            "test/__init__.py",
            "Cargo.toml",
            "crates/new/Cargo.toml",
            "build.rs",
            "package.json",
            "Makefile",
            "code",
            "docs/site/index.html",
            "json/data.json",
            "README",
            "src/shop/logging.py",
            "tests/fixtures/a.json",
        ] {
            assert!(!changes(path, ""), "{path} must stay");
        }
        assert!(!changes("pyproject.toml", "[project]\nname = 'x'\n"));
        assert!(!changes(
            "vite.config.ts",
            "import vue from '@vitejs/plugin-vue'\nexport default { plugins: [vue()] }\n"
        ));
    }
}
