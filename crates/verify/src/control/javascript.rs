//! Tests in JavaScript that must fail, for Node's runner, Jest and Vitest.

use super::Content;

/// How many tests are added to each file.
pub(super) const ADDED: u64 = 2;

const ENDINGS: [&str; 8] = ["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"];

pub(super) fn carries(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    ENDINGS.contains(&ending)
        && !stem.ends_with(".d")
        && (matches!(stem, "test" | "spec")
            || [".test", ".spec", "-test", "_test"].iter().any(|end| stem.ends_with(end))
            || stem.starts_with("test-")
            || folders.split('/').any(|folder| matches!(folder, "test" | "__tests__")))
}

/// Where a file has its test functions from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Node,
    Vitest,
    /// Jest's way, and Vitest's when it is told to.
    Globals,
}

/// The file with its control; none when it can carry none.
pub(super) fn write(source: &str, content: Content, mark: &str) -> Option<String> {
    let origin = if ["node:test", "require('test')", "require(\"test\")"].iter().any(|one| source.contains(one)) {
        Origin::Node
    } else if source.contains("'vitest'") || source.contains("\"vitest\"") {
        Origin::Vitest
    } else {
        Origin::Globals
    };
    // What declares no test may be no test file. Whoever brings the functions along may give them any name.
    let declares = |word: &str| matches!(word, "test" | "it" | "describe");
    let mut words = source.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '$'));
    if origin == Origin::Globals && !words.any(declares) {
        return None;
    }
    let is_module = source.lines().any(|line| line.starts_with("import") || line.starts_with("export"));
    let imports = imports(origin, is_module, mark);
    // One line, so that what is reported of the file's own tests keeps its place.
    let hook = format!("{imports} {}", hook(origin, mark)).replace('\n', " ");
    Some(match (content, origin) {
        (Content::Added, _) => format!("{source}\n;{imports}{}", added(origin, mark)),
        (Content::Alone, _) => format!("{imports}{}", added(origin, mark)),
        // Node's runner begins with a test as soon as it is declared.
        (Content::Ends, Origin::Node) => {
            let (first, rest) = if source.starts_with("#!") { source.split_once('\n')? } else { ("", source) };
            format!("{first}\n{hook} {rest}")
        }
        (Content::Ends, _) => format!("{source}\n;{hook}\n"),
    })
}

/// Names that belong to the control alone, for what it calls.
fn imports(origin: Origin, is_module: bool, mark: &str) -> String {
    let names = format!("test as zztest{mark}, afterEach as zzafter{mark}");
    match (origin, is_module) {
        (Origin::Node, true) => {
            format!("import {{ {names} }} from 'node:test';\nimport zzassert{mark} from 'node:assert';\n")
        }
        (Origin::Node, false) => format!(
            "const {{ test: zztest{mark}, afterEach: zzafter{mark} }} = require('node:test');\n\
             const zzassert{mark} = require('node:assert');\n"
        ),
        (Origin::Vitest, _) => format!("import {{ {names}, expect as zzexpect{mark} }} from 'vitest';\n"),
        (Origin::Globals, _) => {
            format!("const [zztest{mark}, zzafter{mark}, zzexpect{mark}] = [test, afterEach, expect];\n")
        }
    }
}

/// Statements that end in `escape` when an assertion lets through what it must not.
fn attempts(origin: Origin, mark: &str, escape: &str) -> String {
    let calls: &[&str] = match origin {
        Origin::Node => &[
            "(false)",
            ".ok(false)",
            ".equal(1, 2)",
            ".strictEqual(1, 2)",
            ".notStrictEqual(1, 1)",
            ".deepEqual([1], [2])",
            ".deepStrictEqual([1], [2])",
            ".throws(() => {})",
            ".match('a', /b/)",
        ],
        Origin::Vitest | Origin::Globals => &[
            "(1).toBe(2)",
            "(1).not.toBe(1)",
            "([1]).toEqual([2])",
            "([1]).toStrictEqual([2])",
            "(0).toBeTruthy()",
            "(1).toBeFalsy()",
            "(1).toBeUndefined()",
            "(undefined).toBeDefined()",
            "(1).toBeNull()",
            "([1]).toContain(2)",
            "([1]).toHaveLength(2)",
            "('a').toMatch(/b/)",
            "(1).toBeGreaterThan(2)",
            "(1).toBeCloseTo(2)",
            "(() => {}).toThrow()",
        ],
    };
    let name = if origin == Origin::Node { "zzassert" } else { "zzexpect" };
    let list: String = calls.iter().map(|call| format!("    () => {name}{mark}{call},\n")).collect();
    format!(
        "  for (const attempt of [\n{list}  ]) {{\n    try {{ attempt(); }} catch {{ continue; }}\n    {escape}\n  }}\n"
    )
}

/// One test that throws, and one that says so when an assertion lets through what it must not.
fn added(origin: Origin, mark: &str) -> String {
    // In two pieces, so that a listing of the source is not the message.
    let attempts = attempts(origin, mark, &format!("throw new Error('toothless' + '-{mark}');"));
    format!(
        "zztest{mark}('zz {mark} throws', () => {{ throw new Error('control'); }});
zztest{mark}('zz {mark} asserts', () => {{
{attempts}  throw new Error('control');
}});
"
    )
}

/// What follows each test and makes it fail, but for one whose assertions let through what they must not.
fn hook(origin: Origin, mark: &str) -> String {
    let attempts = attempts(origin, mark, "return;");
    format!("zzafter{mark}(() => {{\n{attempts}  throw new Error('control {mark}');\n}});")
}
