//! `hames sandbox`: one command, as the agent's tools would run it.

use std::process::ExitCode;

use hames::protocol::port::{CommandSpec, Exit, Program, Tmp, View};

use hames::LoneSandbox;
use hames::sandbox::{ProtectionConfig, TestFiles};

use crate::args::{SandboxMode, SandboxOptions};
use crate::exit::Failure;
use crate::outlet::Outlet;
use crate::{identity, output, run};

/// A day: long enough for anything a person waits for.
const NO_TIMEOUT_MS: u64 = 24 * 3600 * 1000;

pub(crate) async fn run(options: SandboxOptions) -> Result<ExitCode, Failure> {
    let folder = options.place.workspace.clone().unwrap_or_else(|| ".".into());
    let (protect, unprotect) = (options.place.protect, options.place.unprotect);
    let protection = ProtectionConfig { tests: TestFiles::Open, protect, unprotect };
    let isolation = run::isolation(options.place.sandbox.unwrap_or(SandboxMode::WorkspaceWrite));
    let lone = LoneSandbox::new(&folder, isolation, protection, identity::of_user()).map_err(Failure::usage)?;
    let command = CommandSpec {
        program: Program::Direct(options.command),
        cwd: ".".into(),
        env: Vec::new(),
        timeout_ms: options.timeout.unwrap_or(NO_TIMEOUT_MS),
        tmp: Tmp::Session,
        view: View::default(),
        keep_output: None,
        capture_bytes: 0,
    };
    let outlet = Outlet::default();
    let show = |bytes: &[u8]| outlet.write(bytes);
    let finished = tokio::select! {
        finished = lone.sandbox.run(command, &show) => finished.map_err(Failure::internal)?,
        () = outlet.failed() => return outlet.check().map(|()| ExitCode::FAILURE),
    };
    outlet.check()?;
    for attempt in &finished.attempts {
        output::note(&format!("protected: `{}` ({}), tried to {}", attempt.path, attempt.rule, attempt.action));
    }
    if finished.strays > 0 {
        output::note(&format!("{} processes were left behind and ended.", finished.strays));
    }
    if finished.exit == Exit::TimedOut {
        output::note("The command was ended because its time was up.");
    }
    Ok(ExitCode::from(u8::try_from(finished.exit.shell_code() & 0xff).unwrap_or(1)))
}
