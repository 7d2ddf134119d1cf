//! Isolation: the path jail for files, the operating system's sandbox for processes.
//!
//! Licence of this crate: it is a trust boundary, and the only one with `unsafe`. Both halves share one
//! [`Protection`], so that a path that cannot be changed through a file tool cannot be changed by a command either.

mod ignored;
mod jail;
mod manifest;
mod process;
mod protection;
mod replace;
mod repository;
mod roots;
mod toolchain;
mod walk;
mod workspace;

pub use process::{Bubblewrap, GitIdentity, Mode, ProcessLimits, SandboxConfig, Unconfined};
pub use protection::{Absent, GuardKind, Guarded, Protection, ProtectionConfig, ProtectionProblem, Since, TestFiles};
pub use roots::AddedFolders;
pub use toolchain::Toolchains;
pub use workspace::{WorkspaceFiles, WorkspaceProblem};
