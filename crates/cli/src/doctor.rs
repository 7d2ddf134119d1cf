//! `hames doctor`: whether everything that a run needs is there, and what to do where it is not.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use hames::protocol::Network;
use hames::protocol::port::{CommandSpec, Exit, Peers, Program, Tmp, View};
use hames::sandbox::{ProtectionConfig, TestFiles};
use hames::{Folders, Isolation, LoneSandbox, SessionChoice};
use rustix::fs::Access;

use crate::args::SettingFlags;
use crate::config::{self, Settings};
use crate::exit::Failure;
use crate::{choice, folder, identity, output, run};

/// What is known once a check passed, or why it failed and what to do.
type Finding = Result<String, String>;

/// How long the command in the sandbox may take, in milliseconds.
const TRIAL_TIMEOUT_MS: u64 = 30_000;

pub(crate) async fn examine(flags: &SettingFlags) -> Result<ExitCode, Failure> {
    let workspace = run::workspace(flags.place.workspace.as_deref(), &SessionChoice::New).map_err(said);
    let settings = workspace.clone().and_then(|workspace| config::load(flags, &workspace).map_err(said));
    let mut page = Page { failed: 0 };
    page.line("workspace", workspace.clone().and_then(|workspace| folder(&workspace)))?;
    page.line("config", settings.as_ref().map(|_| "every file is understood".to_owned()).map_err(Clone::clone))?;
    page.line("config folder", config::user_file().ok_or_else(no_home).and_then(|file| writable(&file)))?;
    page.line("state folder", state(workspace.as_deref().ok()))?;
    page.line("git", version("git", "Install it: apt-get install git."))?;
    page.line("bubblewrap", version("bwrap", "Install it: apt-get install bubblewrap."))?;
    page.line("user namespaces", namespaces())?;
    if let Ok(workspace) = &workspace {
        let folders = settings.as_ref().map(|settings| folder::of(&settings.add_dir)).unwrap_or_default();
        page.line("sandbox", sandbox(workspace, folders).await)?;
    }
    if let Ok(settings) = &settings {
        page.line("model", model(settings).await)?;
    }
    Ok(if page.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is said of a failure.
fn said(failure: Failure) -> String {
    failure.message.unwrap_or_default()
}

struct Page {
    failed: u32,
}

impl Page {
    fn line(&mut self, name: &str, finding: Finding) -> Result<(), Failure> {
        let (word, text) = match finding {
            Ok(text) => ("ok", text),
            Err(text) => {
                self.failed += 1;
                ("fail", text)
            }
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        output::print_line(&output::plain(&format!("{word:<4}  {name}: {text}")))
    }
}

fn no_home() -> String {
    "HOME is not set. Set it, or XDG_CONFIG_HOME and XDG_STATE_HOME.".to_owned()
}

/// Where sessions are kept; commands could change them if that were in the workspace.
fn state(workspace: Option<&Path>) -> Finding {
    let sessions = hames::sessions_folder().ok_or_else(no_home)?;
    match workspace {
        Some(workspace) if sessions.starts_with(workspace) => {
            Err("the sessions lie in the workspace. Name another folder with XDG_STATE_HOME.".to_owned())
        }
        _ => writable(&sessions),
    }
}

fn folder(path: &Path) -> Finding {
    if !path.is_dir() {
        return Err(format!("{} is not a folder. Name one with -C.", path.display()));
    }
    writable(path)
}

/// Whether a folder can be written, or could be made where it is missing.
fn writable(path: &Path) -> Finding {
    let existing = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    match rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(path.display().to_string()),
        Err(error) => {
            let (path, existing) = (path.display(), existing.display());
            Err(format!("{path} cannot be written ({existing}: {error}). Make it writable for you."))
        }
    }
}

fn version(program: &str, remedy: &str) -> Finding {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Ok(output) => Err(format!("`{program} --version` failed ({}). {remedy}", output.status)),
        Err(error) => Err(format!("`{program}` cannot be run: {error}. {remedy}")),
    }
}

/// Whether the kernel lets this user make the namespaces that the sandbox consists of.
fn namespaces() -> Finding {
    let trial = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--", "true"])
        .stdin(Stdio::null())
        .output();
    match trial {
        Ok(output) if output.status.success() => Ok("they can be made".to_owned()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("bubblewrap says: {}. {}", said.trim().trim_end_matches('.'), namespace_remedy()))
        }
        Err(_) => Err("they cannot be tried without bubblewrap. Install it first.".to_owned()),
    }
}

/// The switch that is off, as far as the kernel tells.
fn namespace_remedy() -> &'static str {
    let is = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "Allow them: sysctl -w kernel.unprivileged_userns_clone=1."
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "Allow them: sysctl -w user.max_user_namespaces=15000."
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "Allow them: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile."
    } else {
        "In a container, run it with a seccomp profile that allows user namespaces."
    }
}

/// Runs a command as the agent's tools would, whatever the settings say of the sandbox.
async fn sandbox(workspace: &Path, folders: Folders) -> Finding {
    let remedy = "Mend what fails above; only on a machine that is thrown away go without, with --sandbox off.";
    let protection = ProtectionConfig { tests: TestFiles::Open, protect: Vec::new(), unprotect: Vec::new() };
    let (mode, identity) = (Isolation::WorkspaceWrite, identity::of_user());
    let lone = LoneSandbox::new(workspace, mode, Network::None, protection, identity, folders)
        .map_err(|problem| problem.to_string())?;
    let command = CommandSpec {
        program: Program::Direct(vec!["true".to_owned()]),
        cwd: PathBuf::from("."),
        env: Vec::new(),
        timeout_ms: TRIAL_TIMEOUT_MS,
        tmp: Tmp::Session,
        view: View::default(),
        peers: Peers::Session,
        keep_output: None,
        capture_bytes: 0,
    };
    match lone.sandbox.run(command, &|_| {}).await {
        Ok(finished) if finished.exit == Exit::Code(0) => Ok("a command ran in it".to_owned()),
        Ok(finished) => Err(format!("`true` ended with {} in it. {remedy}", finished.exit.shell_code())),
        Err(problem) => Err(format!("{problem} {remedy}")),
    }
}

/// Whether the model of the next run can be set up, its key included; nothing is sent.
async fn model(settings: &Settings) -> Finding {
    let model = choice::model(settings).await.map_err(said)?;
    let info = model.info();
    Ok(format!("{}/{} is set up; no request was sent", info.provider, info.name))
}
