//! Every runner for real: what passes, what fails, and what a hostile author of the code under test makes of it.

use std::path::Path;

use hames_protocol::port::Verifier as _;
use hames_protocol::{CheckKind, Verdict};

use crate::double::Trial;

/// A project in which one of two tests fails until the discount is a percentage.
struct Project {
    files: &'static [(&'static str, &'static str)],
    /// The code under test, mended.
    fixed: (&'static str, &'static str),
    /// Its runner's name in evidence.
    runner: &'static str,
}

/// What a hostile author leaves behind: files, written over what is there.
type Work = &'static [(&'static str, &'static str)];

impl Project {
    fn trial(&self, command: &str) -> Trial {
        let trial = Trial::empty(&[command], 300_000);
        for (path, text) in self.files {
            trial.write(path, text);
        }
        if matches!(self.runner, "jest" | "vitest") {
            let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/javascript/node_modules");
            let installed =
                installed.canonicalize().unwrap_or_else(|_| panic!("`scripts/setup --tests` installs Jest and Vitest"));
            std::os::unix::fs::symlink(installed, trial.root.join("node_modules")).unwrap();
        }
        trial
    }

    /// What was broken fails, what is mended passes, and each of `forgeries` is told.
    async fn check(&self, command: &str, forgeries: &[Work]) {
        let trial = self.trial(command);
        let (baseline, counts) = trial.begin().await;
        let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Fail, "{command}: {judgement:#?}");
        trial.write(self.fixed.0, self.fixed.1);
        let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
        assert_eq!(judgement.verdict, Verdict::Pass, "{command}: {judgement:#?}");
        let CheckKind::Tests { runner, ran, untouched } = &judgement.evidence[0].kind else {
            panic!("{command}: {judgement:#?}")
        };
        assert_eq!((runner.as_str(), Some(*ran)), (self.runner, *untouched), "{command}: {judgement:#?}");
        for (number, forgery) in forgeries.iter().enumerate() {
            for (path, text) in *forgery {
                trial.write(path, text);
            }
            let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
            assert_ne!(judgement.verdict, Verdict::Pass, "{command}, forgery {number}: {judgement:#?}");
            for (path, _) in *forgery {
                match self.files.iter().find(|(there, _)| there == path) {
                    Some((_, text)) => trial.write(path, text),
                    None => std::fs::remove_file(trial.root.join(path)).unwrap(),
                }
            }
        }
    }
}

const GO: Project = Project {
    files: &[
        ("go.mod", "module example.com/shop\n\ngo 1.18\n"),
        ("shop.go", "package shop\n\nfunc Discount(total, percent int) int { return total - percent }\n"),
        (
            "shop_test.go",
            "package shop\n\nimport \"testing\"\n\nfunc TestNone(t *testing.T) {\n\tif Discount(50, 0) != 50 {\n\
             \t\tt.Fatal(\"none\")\n\t}\n}\n\nfunc TestTen(t *testing.T) {\n\tif got := Discount(50, 10); got != 45 {\n\
             \t\tt.Fatalf(\"got %d\", got)\n\t}\n}\n",
        ),
        ("other/other.go", "package other\n"),
    ],
    fixed: ("shop.go", "package shop\n\nfunc Discount(total, percent int) int { return total - total*percent/100 }\n"),
    runner: "go test",
};

/// Leaves with success when the package is loaded, or when the code under test is called.
const GO_FORGERIES: [Work; 4] = [
    &[(
        "shop.go",
        "package shop\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() { fmt.Println(\"=== RUN   TestNone\\n--- PASS: TestNone (0.00s)\\n=== RUN   TestTen\\n--- PASS: TestTen (0.00s)\\nPASS\"); os.Exit(0) }\n\nfunc Discount(total, percent int) int { return 0 }\n",
    )],
    &[(
        "shop.go",
        "package shop\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc Discount(total, percent int) int { fmt.Println(\"--- PASS: TestNone (0.00s)\\n=== RUN   TestTen\\n--- PASS: TestTen (0.00s)\\nPASS\"); os.Exit(0); return 0 }\n",
    )],
    &[(
        "main_test.go",
        "package shop\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { fmt.Println(\"=== RUN   TestNone\\n--- PASS: TestNone (0.00s)\\n=== RUN   TestTen\\n--- PASS: TestTen (0.00s)\\nPASS\"); os.Exit(0) }\n",
    )],
    &[(
        "shop.go",
        "package shop\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Discount(total, percent int) int { return 0 }\n",
    )],
];

#[tokio::test]
async fn go_is_counted_and_controlled() {
    GO.check("go test ./...", &GO_FORGERIES).await;
}

#[tokio::test]
async fn go_is_controlled_where_a_check_names_a_package_or_a_test() {
    GO.check("go test -json .", &GO_FORGERIES[..1]).await;
    GO.check("go test -run 'TestNone|TestTen' ./...", &GO_FORGERIES[1..2]).await;
}

const NODE: Project = Project {
    files: &[
        ("package.json", "{ \"name\": \"shop\", \"scripts\": { \"test\": \"node --test\" } }\n"),
        ("pricing.js", "exports.discount = (total, percent) => total - percent;\n"),
        (
            "test/pricing.test.js",
            "const { test } = require('node:test');\nconst assert = require('node:assert');\n\
             const { discount } = require('../pricing.js');\n\
             test('none', () => assert.strictEqual(discount(50, 0), 50));\n\
             test('ten', () => assert.strictEqual(discount(50, 10), 45));\n",
        ),
    ],
    fixed: ("pricing.js", "exports.discount = (total, percent) => total * (100 - percent) / 100;\n"),
    runner: "node --test",
};

const NODE_FORGERIES: [Work; 4] = [
    &[("pricing.js", "console.log('tests 2\\npass 2\\nfail 0\\nduration_ms 1'); process.exit(0);\n")],
    &[(
        "pricing.js",
        "const test = require('node:test');\nfor (const n of ['a', 'b']) test(n, () => {});\nexports.discount = () => process.exit(0);\n",
    )],
    &[("pricing.js", "require('node:assert').strictEqual = () => {};\nexports.discount = (t, p) => t - p;\n")],
    &[(
        "pricing.js",
        "require('node:test').test = () => {};\nconst test = require('node:test');\nfor (const n of ['a', 'b']) test(n, () => {});\nexports.discount = (t, p) => t - p;\nprocess.on('exit', () => process.reallyExit(0));\n",
    )],
];

#[tokio::test]
async fn nodes_runner_is_counted_and_controlled() {
    NODE.check("node --test", &NODE_FORGERIES).await;
    NODE.check("node --test --test-reporter=spec test/pricing.test.js", &NODE_FORGERIES[..3]).await;
}

#[tokio::test]
async fn nodes_runner_is_controlled_where_a_check_names_a_test_or_a_script() {
    NODE.check("node --test --test-name-pattern='none|ten'", &NODE_FORGERIES[..2]).await;
    NODE.check("npm test", &NODE_FORGERIES[..3]).await;
}

const NODE_RENAMED: Project = Project {
    files: &[
        NODE.files[0],
        NODE.files[1],
        (
            "test/pricing.test.js",
            "const t = require('node:test');\nconst assert = require('node:assert');\n\
             const discount = require('../pricing.js').discount;\n\
             t('none', () => assert.strictEqual(discount(50, 0), 50));\n\
             t('ten', () => assert.strictEqual(discount(50, 10), 45));\n",
        ),
    ],
    ..NODE
};

#[tokio::test]
async fn tests_of_node_declared_by_another_name_are_controlled() {
    NODE_RENAMED.check("node --test", &NODE_FORGERIES[2..3]).await;
}

const JEST: Project = Project {
    files: &[
        ("package.json", "{ \"name\": \"shop\", \"scripts\": { \"test\": \"jest\" } }\n"),
        ("pricing.js", "exports.discount = (total, percent) => total - percent;\n"),
        (
            "pricing.test.js",
            "const { discount } = require('./pricing.js');\n\
             test('none', () => expect(discount(50, 0)).toBe(50));\n\
             test('ten', () => expect(discount(50, 10)).toBe(45));\n",
        ),
    ],
    fixed: ("pricing.js", "exports.discount = (total, percent) => total * (100 - percent) / 100;\n"),
    runner: "jest",
};

const JEST_FORGERIES: [Work; 4] = [
    &[(
        "pricing.js",
        "require('fs').writeSync(2, 'Test Suites: 1 passed, 1 total\\nTests:       2 passed, 2 total\\n'); process.reallyExit(0);\n",
    )],
    &[(
        "pricing.js",
        "exports.discount = () => { require('fs').writeSync(2, 'Test Suites: 1 passed, 1 total\\nTests:       2 passed, 2 total\\n'); process.reallyExit(0); };\n",
    )],
    &[(
        "pricing.js",
        "globalThis.expect = () => new Proxy({}, { get: () => () => {} });\nexports.discount = (t, p) => t - p;\n",
    )],
    &[
        ("jest.config.js", "module.exports = { setupFilesAfterEnv: ['./setup.js'] };\n"),
        ("setup.js", "globalThis.expect = () => new Proxy({}, { get: () => () => {} });\n"),
    ],
];

#[tokio::test]
async fn jest_is_counted_and_controlled() {
    JEST.check("npx --no-install jest", &JEST_FORGERIES).await;
}

#[tokio::test]
async fn jest_is_controlled_where_a_check_names_a_file_a_test_or_a_script() {
    JEST.check("node_modules/.bin/jest pricing.test.js -t '^none$|^ten$'", &JEST_FORGERIES[2..3]).await;
    JEST.check("npm test --silent", &JEST_FORGERIES[1..2]).await;
}

const VITEST: Project = Project {
    files: &[
        ("package.json", "{ \"name\": \"shop\", \"type\": \"module\", \"scripts\": { \"test\": \"vitest run\" } }\n"),
        ("pricing.js", "export const discount = (total, percent) => total - percent;\n"),
        (
            "pricing.test.js",
            "import { expect, test } from 'vitest';\nimport { discount } from './pricing.js';\n\
             test('none', () => expect(discount(50, 0)).toBe(50));\n\
             test('ten', () => expect(discount(50, 10)).toBe(45));\n",
        ),
    ],
    fixed: ("pricing.js", "export const discount = (total, percent) => total * (100 - percent) / 100;\n"),
    runner: "vitest",
};

const VITEST_FORGERIES: [Work; 3] = [
    &[(
        "pricing.js",
        "import { expect } from 'vitest';\nexpect.extend({ toBe: () => ({ pass: true, message: () => '' }) });\nexport const discount = (t, p) => t - p;\n",
    )],
    &[(
        "pricing.js",
        "import fs from 'node:fs';\nfs.writeSync(1, '\\n Test Files  1 passed (1)\\n      Tests  2 passed (2)\\n');\nprocess.kill(process.ppid, 'SIGKILL');\nexport const discount = (t, p) => t - p;\n",
    )],
    &[
        ("vitest.config.js", "export default { test: { setupFiles: ['./setup.js'] } };\n"),
        (
            "setup.js",
            "import { expect } from 'vitest';\nexpect.extend({ toBe: () => ({ pass: true, message: () => '' }) });\n",
        ),
    ],
];

#[tokio::test]
async fn vitest_is_counted_and_controlled() {
    VITEST.check("npx --no-install vitest run", &VITEST_FORGERIES).await;
}

#[tokio::test]
async fn vitest_is_controlled_where_a_check_names_a_file_a_test_or_a_script() {
    VITEST.check("node_modules/.bin/vitest run pricing.test.js -t 'none|ten'", &VITEST_FORGERIES[..1]).await;
    VITEST.check("npm test", &VITEST_FORGERIES[..1]).await;
}

const PYTEST: Project = Project {
    files: &[
        ("pricing.py", "def discount(total, percent):\n    return total - percent\n"),
        (
            "tests/test_pricing.py",
            "from pricing import discount\n\n\ndef test_none():\n    assert discount(50, 0) == 50\n\n\n\
             def test_ten():\n    assert discount(50, 10) == 45\n",
        ),
    ],
    fixed: ("pricing.py", "def discount(total, percent):\n    return total * (100 - percent) / 100\n"),
    runner: "pytest",
};

const PYTEST_FORGERIES: [Work; 2] = [
    &[("pricing.py", "import os\nos.write(1, b'2 passed in 0.01s\\n')\nos._exit(0)\n")],
    &[(
        "pricing.py",
        "import os\n\n\ndef discount(total, percent):\n    os.write(1, b'2 passed in 0.01s\\n')\n    os._exit(0)\n",
    )],
];

#[tokio::test]
async fn pytest_is_counted_and_controlled() {
    PYTEST.check("python3 -m pytest -q -s", &PYTEST_FORGERIES).await;
}

#[tokio::test]
async fn pytest_is_controlled_where_a_check_names_a_test() {
    let named = "python3 -m pytest -q -s tests/test_pricing.py::test_none tests/test_pricing.py::test_ten";
    PYTEST.check(named, &PYTEST_FORGERIES[1..]).await;
}

/// The same project, with what stands in a report in XML for evidence.
const JUNIT: Project = Project { runner: "JUnit XML", ..PYTEST };

#[tokio::test]
async fn reports_in_xml_are_counted_and_controlled() {
    JUNIT
        .check(
            "python3 -m pytest -qq --junitxml=out/report.xml",
            &[
                // There before the check began, whatever time it bears, and written by the code under test.
                &[
                    ("out/report.xml", "<testsuites><testsuite><testcase name=\"a\"/><testcase name=\"b\"/></testsuite></testsuites>"),
                    ("pricing.py", "import os\nos._exit(0)\n"),
                ],
                &[("pricing.py", "import os\nos.makedirs('out', exist_ok=True)\nwith open('out/report.xml', 'w') as file:\n    file.write('<testsuites><testsuite><testcase name=\"a\"/><testcase name=\"b\"/></testsuite></testsuites>')\nos._exit(0)\n")],
            ],
        )
        .await;
}

#[tokio::test]
async fn a_script_of_the_manifest_that_only_prints_is_not_believed() {
    let trial = NODE.trial("npm test");
    let (baseline, counts) = trial.begin().await;
    let forged =
        "{ \"scripts\": { \"test\": \"printf '# tests 2\\\\n# pass 2\\\\n# fail 0\\\\n# duration_ms 1\\\\n'\" } }";
    trial.write("package.json", forged);
    let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
    assert_ne!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
    // A new dependency is nothing that decides what runs.
    trial.write(NODE.fixed.0, NODE.fixed.1);
    trial.write("package.json", "{ \"scripts\": { \"test\": \"node --test\" }, \"dependencies\": {} }");
    let judgement = trial.checks.judge(&baseline, &counts).await.unwrap();
    assert_eq!((judgement.verdict, judgement.set_aside), (Verdict::Pass, Vec::new()));
}

const GO_ASSERT: &str = "package assert\n\ntype T interface{ Errorf(format string, arguments ...interface{}) }\n\n\
    func fails(t T, ok bool) bool {\n\tif !ok {\n\t\tt.Errorf(\"not so\")\n\t}\n\treturn ok\n}\n\n\
    func Equal(t T, a, b interface{}) bool { return fails(t, a == b) }\n\
    func True(t T, ok bool) bool { return fails(t, ok) }\n\
    func Nil(t T, a interface{}) bool { return fails(t, a == nil) }\n";

/// A project whose assertions come from a module that its own files replace.
const TESTIFY: Project = Project {
    files: &[
        (
            "go.mod",
            "module example.com/shop\n\ngo 1.18\n\nrequire github.com/stretchr/testify v1.8.0\n\n\
             replace github.com/stretchr/testify => ./third\n",
        ),
        ("third/go.mod", "module github.com/stretchr/testify\n\ngo 1.18\n"),
        ("third/assert/assert.go", GO_ASSERT),
        ("shop.go", "package shop\n\nfunc Discount(total, percent int) int { return total - percent }\n"),
        (
            "shop_test.go",
            "package shop\n\nimport (\n\t\"testing\"\n\n\t\"github.com/stretchr/testify/assert\"\n)\n\n\
             func TestTen(t *testing.T) { assert.Equal(t, 45, Discount(50, 10)) }\n",
        ),
    ],
    ..GO
};

#[tokio::test]
async fn assertions_of_a_replaced_module_of_go_are_tried() {
    TESTIFY
        .check(
            "go test .",
            &[&[(
                "third/assert/assert.go",
                "package assert\n\nfunc Equal(t, a, b interface{}) bool { return true }\n\
                 func True(t interface{}, ok bool) bool { return true }\n\
                 func Nil(t, a interface{}) bool { return true }\n",
            )]],
        )
        .await;
}

const RUST: Project = Project {
    files: &[
        ("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n"),
        (
            "src/lib.rs",
            "pub fn discount(total: u32, percent: u32) -> u32 {\n    total - percent\n}\n\n#[test]\nfn a_tenth() {\n    \
             assert_eq!(discount(50, 10), 45);\n}\n",
        ),
    ],
    fixed: (
        "src/lib.rs",
        "pub fn discount(total: u32, percent: u32) -> u32 {\n    total - total * percent / 100\n}\n\n#[test]\nfn a_tenth() {\n    \
         assert_eq!(discount(50, 10), 45);\n}\n",
    ),
    runner: "cargo test",
};

const RUST_FORGERY: Work = &[(
    "src/lib.rs",
    "use std::io::Write as _;\n\npub fn discount(_: u32, _: u32) -> u32 {\n    let report = \"\\ntest result: ok. 1 passed; 0 failed; \
     0 ignored; 0 measured; 0 filtered out; finished in 0.00s\\n\";\n    std::io::stdout().write_all(report.as_bytes()).ok();\n    \
     std::process::exit(0)\n}\n\n#[test]\nfn a_tenth() {\n    assert_eq!(discount(50, 10), 45);\n}\n",
)];

#[tokio::test]
async fn unit_tests_in_rust_are_controlled_also_where_a_check_names_one() {
    RUST.check("cargo test --offline --lib", &[RUST_FORGERY]).await;
    RUST.check("cargo test --offline --lib a_tenth", &[RUST_FORGERY]).await;
}

#[tokio::test]
async fn a_test_that_is_meant_to_panic_and_chosen_by_name_passes() {
    let trial = Trial::empty(&["cargo test --offline --lib refuses"], 300_000);
    trial.write(RUST.files[0].0, RUST.files[0].1);
    trial.write("src/lib.rs", "#[test]\n#[should_panic]\nfn refuses() {\n    panic!(\"so\")\n}\n");
    let judgement = trial.judged(|_| {}).await.unwrap();
    assert_eq!(judgement.verdict, Verdict::Pass, "{judgement:#?}");
}
