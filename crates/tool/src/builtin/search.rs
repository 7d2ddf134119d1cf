//! `search`: lines that match a regular expression.
//!
//! The walk only finds names. Each file is read through the workspace port, so one that turned into a link out of the
//! workspace meanwhile is refused like any other path.

use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use hames_protocol::port::{FileKind, PathProblem, Tool, Workspace};
use hames_protocol::{BoxFuture, Call, Examination, Guard, Probe, Problem, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::list_files::no_folder;
use super::read_file::examine_reading;
use crate::blocking::{Stop, blocking};
use crate::bound::RESULT_LIMIT_BYTES;
use crate::files::{READ_LIMIT_BYTES, failure};
use crate::schema::{arguments, spec};
use crate::text::{counted, escaped, shown};
use crate::walk::{Hidden, Target};

/// How many matching lines are shown.
const MATCH_LIMIT: usize = 200;

/// How much of a matching line is shown, in bytes.
const LINE_LIMIT_BYTES: usize = 300;

/// How much of a long line stands before its match, in bytes.
const LEAD_BYTES: usize = 60;

/// What is kept free for the notes beneath the matches, in bytes.
const NOTES_BYTES: usize = 400;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Regular expression (Rust), line by line; (?i) ignores case.
    pattern: String,
    /// File or folder; the workspace by default.
    #[serde(default)]
    path: Option<String>,
    /// Only files such as *.rs or src/**/*.py
    #[serde(default)]
    glob: Option<String>,
}

pub(crate) struct Search {
    spec: ToolSpec,
    workspace: Arc<dyn Workspace>,
}

impl Search {
    pub(crate) fn new(workspace: Arc<dyn Workspace>) -> Self {
        let description = "Finds lines, as path:line:text. Skips ignored, hidden and binary files unless path names \
                           them.";
        Self { spec: spec::<Arguments>("search", description), workspace }
    }
}

impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let workspace = Arc::clone(&self.workspace);
        Box::pin(async move {
            let arguments = match arguments::<Arguments>(call) {
                Ok(arguments) => arguments,
                Err(problem) => return Examination::problem(problem.guard, problem.text),
            };
            let faults = [Query::matcher(&arguments.pattern).err(), Query::filter(arguments.glob.as_deref()).err()];
            let path = arguments.path.unwrap_or_else(|| ".".to_owned());
            let mut examination = blocking(move |_| examine_reading(path.clone(), workspace.locate(&path))).await;
            let faults = faults.into_iter().flatten().map(|text| Problem { guard: Guard::Valid, text });
            examination.problems.extend(faults);
            examination
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let workspace = Arc::clone(&self.workspace);
        Box::pin(async move {
            match arguments(call) {
                Ok(arguments) => blocking(move |stop| search(workspace.as_ref(), &arguments, stop)).await,
                Err(problem) => ToolResult::failed(problem.text),
            }
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

/// A pattern and the files that it is for.
struct Query {
    matcher: RegexMatcher,
    filter: Option<GlobMatcher>,
}

impl Query {
    fn new(arguments: &Arguments) -> Result<Self, String> {
        Ok(Self { matcher: Self::matcher(&arguments.pattern)?, filter: Self::filter(arguments.glob.as_deref())? })
    }

    fn matcher(pattern: &str) -> Result<RegexMatcher, String> {
        RegexMatcherBuilder::new().multi_line(true).crlf(true).build(pattern).map_err(|error| {
            // The library draws an arrow under the fault over several lines; its last line names it.
            let text = error.to_string();
            let cause = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let hint = if pattern.contains('\n') || pattern.contains("\\n") {
                "The search goes line by line, so a pattern cannot span lines."
            } else {
                "To search for `( ) [ ] { } . * + ? ^ $ |` or `\\` themselves, put a `\\` before each."
            };
            format!("`{}` is not a valid regular expression: {}. {hint}", shown(pattern), shown(cause))
        })
    }

    fn filter(glob: Option<&str>) -> Result<Option<GlobMatcher>, String> {
        let compile = |glob: &str| {
            let glob = glob.strip_prefix("./").unwrap_or(glob);
            // As in an ignore file, a pattern without a slash is about names at any depth.
            let whole = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
            let built = GlobBuilder::new(&whole).literal_separator(true).build();
            built.map(|glob| glob.compile_matcher()).map_err(|error| {
                format!(
                    "`{}` is not a valid glob: {}. Use for example `*.rs`.",
                    shown(glob),
                    shown(&error.kind().to_string())
                )
            })
        };
        glob.map(compile).transpose()
    }

    /// Whether a file is among those asked for, by its path in the workspace or beneath the folder searched.
    fn wants(&self, path: &str, below: &Path) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.is_match(path) || filter.is_match(below))
    }
}

fn search(workspace: &dyn Workspace, arguments: &Arguments, stop: &Stop) -> ToolResult {
    let query = match Query::new(arguments) {
        Ok(query) => query,
        Err(text) => return ToolResult::failed(text),
    };
    let path = arguments.path.as_deref().unwrap_or(".");
    let landing = match workspace.locate(path) {
        Ok(landing) => landing,
        Err(problem) => return failure(&problem),
    };
    let mut hits = Hits::default();
    let mut searcher = SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .line_number(true)
        .build();
    if landing.kind == FileKind::File {
        // Asked for by name, so neither glob nor ignore rules keep it out.
        if let Err(problem) = hits.search(&mut searcher, &query, workspace, &landing.path) {
            return failure(&problem);
        }
    } else {
        let Some(target) = Target::of(workspace, &landing) else { return no_folder(path, &landing) };
        for found in target.walk(Hidden::Skipped, None) {
            if stop.asked() {
                break;
            }
            let is_file = found.entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && query.wants(&found.path, &found.below) {
                hits.visit(&mut searcher, &query, workspace, &found.path);
            }
        }
    }
    hits.result(arguments)
}

/// What a search found.
#[derive(Default)]
struct Hits {
    text: String,
    shown: usize,
    total: usize,
    files: usize,
    searched: usize,
    too_large: usize,
    unreadable: usize,
}

impl Hits {
    /// Searches a file that the walk found; one that cannot be read is counted.
    fn visit(&mut self, searcher: &mut Searcher, query: &Query, workspace: &dyn Workspace, path: &str) {
        match self.search(searcher, query, workspace, path) {
            Ok(()) => {}
            Err(PathProblem::TooLarge { .. }) => self.too_large += 1,
            Err(_) => self.unreadable += 1,
        }
    }

    fn search(
        &mut self,
        searcher: &mut Searcher,
        query: &Query,
        workspace: &dyn Workspace,
        path: &str,
    ) -> Result<(), PathProblem> {
        let content = workspace.read(path, READ_LIMIT_BYTES)?;
        let before = self.total;
        let mut lines = Lines { hits: self, matcher: &query.matcher, path: escaped(path) };
        // A slice cannot fail to be read, and neither can the sink; a file that decodes badly is passed over.
        if searcher.search_slice(&query.matcher, &content.bytes, &mut lines).is_err() {
            self.unreadable += 1;
        }
        self.searched += 1;
        self.files += usize::from(self.total > before);
        Ok(())
    }

    fn add(&mut self, line: &str) {
        let fits = self.text.len() + line.len() <= RESULT_LIMIT_BYTES - NOTES_BYTES;
        // Once one was left out, all that follow are, so that what is shown is a beginning without gaps.
        if self.shown == self.total && self.shown < MATCH_LIMIT && fits {
            self.text.push_str(line);
            self.shown += 1;
        }
        self.total += 1;
    }

    fn result(self, arguments: &Arguments) -> ToolResult {
        let mut text = self.text;
        if self.total == 0 {
            let searched = counted(self.searched, "file");
            text = format!("Nothing matches `{}` ({searched} searched).\n", shown(&arguments.pattern));
        }
        if self.total > self.shown {
            let more = counted(self.total - self.shown, "match");
            let files = counted(self.files, "file");
            text.push_str(&format!(
                "[{more} left out, of {} in {files}. Narrow the pattern, `path` or `glob`.]\n",
                self.total
            ));
        }
        if self.too_large > 0 {
            text.push_str(&format!("[{} not searched: too large.]\n", counted(self.too_large, "file")));
        }
        if self.unreadable > 0 {
            text.push_str(&format!("[{} not searched: unreadable.]\n", counted(self.unreadable, "file")));
        }
        text.truncate(text.trim_end_matches('\n').len());
        let mut result = ToolResult::ok(text);
        result.data = json!({ "matches": self.total, "files": self.files, "searched": self.searched });
        result
    }
}

struct Lines<'a> {
    hits: &'a mut Hits,
    matcher: &'a RegexMatcher,
    path: String,
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let bytes = found.bytes();
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let number = found.line_number().unwrap_or_default();
        let line = format!("{}:{number}:{}\n", self.path, window(bytes, start));
        self.hits.add(&line);
        Ok(true)
    }
}

/// The line, or the part of a long one that begins shortly before its match.
fn window(line: &[u8], start: usize) -> String {
    let whole = line.strip_suffix(b"\n").unwrap_or(line);
    let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
    if whole.len() <= LINE_LIMIT_BYTES {
        return escaped_but_tabs(&String::from_utf8_lossy(whole));
    }
    let from = if start + LEAD_BYTES > LINE_LIMIT_BYTES { start - LEAD_BYTES } else { 0 };
    let to = (from + LINE_LIMIT_BYTES).min(whole.len());
    let text = String::from_utf8_lossy(&whole[from..to]);
    let open = if from > 0 { "…" } else { "" };
    let close = if to < whole.len() { "…" } else { "" };
    format!("{open}{}{close}", escaped_but_tabs(text.trim_matches('\u{fffd}')))
}

fn escaped_but_tabs(text: &str) -> String {
    text.split('\t').map(escaped).collect::<Vec<_>>().join("\t")
}
