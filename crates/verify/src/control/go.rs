//! Tests in Go that must fail.

use hames_protocol::Digest;

use super::Content;

pub(super) fn carries(path: &str) -> bool {
    path.ends_with("_test.go")
}

/// The file with its control; none when it can carry none.
pub(super) fn write(path: &str, source: &str, content: Content, mark: &str) -> Option<String> {
    let clause = source.lines().find(|line| line.starts_with("package "))?;
    let name = clause.split_whitespace().nth(1)?.split(';').next()?;
    // Two files of one package, and so of one scope.
    let own = format!("{mark}{}", Digest::of(path.as_bytes()).short());
    let import = format!("package {name}; import zztesting{own} \"testing\"");
    match content {
        Content::Added => {
            let body = source.replacen(&format!("package {name}"), &import, 1);
            Some(format!("{body}\n{}", added(source, &own, mark)))
        }
        Content::Alone => {
            let constraints: String = source
                .lines()
                .take_while(|line| !line.starts_with("package "))
                .filter(|line| line.starts_with("//go:build") || line.starts_with("// +build"))
                .flat_map(|line| [line, "\n"])
                .collect();
            Some(format!("{constraints}\n{import}\n{}", added("", &own, mark)))
        }
        Content::Ends => ends(source, mark),
    }
}

/// A test that fails, and says so when the assertions of testify, which a module may replace, do not.
fn added(source: &str, own: &str, mark: &str) -> String {
    let attempts: String = ["assert", "require"]
        .into_iter()
        .filter(|package| source.contains(&format!("\t\"github.com/stretchr/testify/{package}\"")))
        .map(|package| {
            format!(
                "
	for _, attempt := range []func(t *zztesting{own}.T){{
		func(t *zztesting{own}.T) {{ {package}.Equal(t, 1, 2) }},
		func(t *zztesting{own}.T) {{ {package}.True(t, false) }},
		func(t *zztesting{own}.T) {{ {package}.Nil(t, 1) }},
	}} {{
		other, done := new(zztesting{own}.T), make(chan bool)
		go func() {{ defer close(done); attempt(other) }}()
		<-done
		if !other.Failed() {{
			t.Fatal(\"toothless\" + \"-{mark}\")
		}}
	}}
"
            )
        })
        .collect();
    format!("\nfunc TestZz{own}(t *zztesting{own}.T) {{{attempts}\n\tt.Fatal(\"control {mark}\")\n}}\n")
}

/// Every test fails at its end; none when the file holds no test in the usual form.
fn ends(source: &str, mark: &str) -> Option<String> {
    let mut any = false;
    let written = source.split_inclusive('\n').map(|line| {
        let parameter = line
            .strip_prefix("func Test")
            .and_then(|rest| rest.split_once('(')?.1.split_once(" *testing.T)"))
            .map(|(name, _)| name)
            .filter(|name| name.chars().all(char::is_alphanumeric));
        match (parameter, line.find('{')) {
            (Some(name), Some(brace)) => {
                any = true;
                format!("{} defer {name}.Error(\"control {mark}\");{}", &line[..=brace], &line[brace + 1..])
            }
            _ => line.to_owned(),
        }
    });
    let written = written.collect();
    any.then_some(written)
}
