//! Tests in Python that must fail, for unittest and pytest.

use super::Content;

/// Words of a module that decides by itself which of its tests run, so that an added one may rightly be passed over.
const CHOOSING: [&str; 6] = ["load_tests", "pytestmark", "importorskip", "allow_module_level", "SkipTest", "__test__"];

/// How many tests are added to each file.
pub(super) const ADDED: u64 = 2;

pub(super) fn carries(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".py")
        .is_some_and(|stem| stem.starts_with("test") || stem.ends_with("_test") || stem.ends_with("_tests"))
}

/// The file with its control; none when it can carry none.
pub(super) fn write(source: &str, content: Content, mark: &str) -> Option<String> {
    let chooses = CHOOSING.iter().any(|word| source.contains(word));
    match content {
        Content::Added | Content::Alone if chooses => None,
        // A main block would never return.
        Content::Added => Some(before_main(source, &added(mark))),
        Content::Alone => Some(format!("{}\nif __name__ == '__main__':\n    _unittest_{mark}.main()\n", added(mark))),
        Content::Ends => Some(before_main(source, &ends(mark))),
    }
}

fn before_main(source: &str, control: &str) -> String {
    let at = source.find("\nif __name__").unwrap_or(source.len());
    format!("{}\n{control}{}", &source[..at], &source[at..])
}

/// One test that fails by an assertion, one by an error. The first passes, and so is missed, when some assertion lets
/// through what it must not.
fn added(mark: &str) -> String {
    format!(
        "
import unittest as _unittest_{mark}


class Zz{mark}(_unittest_{mark}.TestCase):
    def test_assert(self):
{}
        self.fail('control')

    def test_raise(self):
        raise RuntimeError('control')

",
        attempts("self", 8)
    )
}

/// Statements that return when an assertion of the test case lets through what it must not, indented by `indent`.
fn attempts(case: &str, indent: usize) -> String {
    const CALLS: [&str; 18] = [
        "assertEqual(1, 2)",
        "assertNotEqual(1, 1)",
        "assertTrue(0)",
        "assertFalse(1)",
        "assertIs(1, None)",
        "assertIsNone(1)",
        "assertIsNotNone(None)",
        "assertIn(1, [2])",
        "assertNotIn(1, [1])",
        "assertIsInstance(1, str)",
        "assertRaises(ValueError, int)",
        "assertAlmostEqual(1, 2)",
        "assertGreater(1, 2)",
        "assertLess(2, 1)",
        "assertRegex('a', 'b')",
        "assertCountEqual([1], [2])",
        "assertListEqual([1], [2])",
        "assertDictEqual({1: 1}, {1: 2})",
    ];
    let list: String = CALLS.iter().map(|call| format!("    lambda: {case}.{call},\n")).collect();
    let statements = format!(
        "for attempt in (\n{list}):\n    try:\n        attempt()\n    except {case}.failureException:\n        \
         continue\n    return"
    );
    statements.lines().map(|line| format!("{:indent$}{line}", "")).collect::<Vec<_>>().join("\n")
}

/// Every test of the module fails at its end: by an assertion, and those of unittest by an error as well.
fn ends(mark: &str) -> String {
    format!(
        "
def _zz_{mark}(module):
    import functools
    import inspect
    import unittest

    def error():
        raise RuntimeError('control {mark}')

    def begin(case):
        if isinstance(case, unittest.TestCase):
            case.addCleanup(error)

    def end(case):
        if isinstance(case, unittest.TestCase):
{}
        assert False, 'control {mark}'

    def ending(test):
        @functools.wraps(test)
        def run(*arguments, **named):
            case = arguments[0] if arguments else None
            begin(case)
            test(*arguments, **named)
            end(case)

        @functools.wraps(test)
        async def run_async(*arguments, **named):
            case = arguments[0] if arguments else None
            begin(case)
            await test(*arguments, **named)
            end(case)

        return run_async if inspect.iscoroutinefunction(test) else run

    for name, value in list(module.items()):
        if inspect.isclass(value) and value.__module__ == module['__name__']:
            for test in dir(value):
                if test.startswith('test') and inspect.isfunction(getattr(value, test)):
                    setattr(value, test, ending(getattr(value, test)))
        elif name.startswith('test') and inspect.isfunction(value):
            module[name] = ending(value)


_zz_{mark}(globals())

",
        attempts("case", 12)
    )
}
