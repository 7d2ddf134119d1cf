//! The port to a person.

use crate::{Answer, Ask, BoxFuture};

/// Reaches a person for what only a person can say.
///
/// `ask` waits for as long as the person takes; that time counts against no limit. It is asked one thing at a time. It
/// must not block its thread, and cannot fail: whatever keeps it from an answer means that nobody is there. Dropping
/// the future withdraws the question, so that an answer given later goes to nobody. The same thing may be asked again,
/// after a restart or when a suspended run is taken up.
///
/// ```
/// use hames_protocol::port::Approver;
/// use hames_protocol::{Answer, Ask, BoxFuture};
///
/// struct Agreeable;
///
/// impl Approver for Agreeable {
///     fn ask<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Option<Answer>> {
///         let Ask::Question(_) = ask;
///         Box::pin(async { Some(Answer::said("Yes.")) })
///     }
/// }
/// ```
pub trait Approver: Send + Sync {
    /// Asks a person and waits for the answer; none when nobody is there.
    fn ask<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Option<Answer>>;
}
