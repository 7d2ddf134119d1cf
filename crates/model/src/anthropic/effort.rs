//! How much a model should put into its replies.

/// How many tokens a model is asked to spend on thinking, calls and text alike.
///
/// Source: <https://platform.claude.com/docs/en/build-with-claude/effort>; a model that does not know the field
/// refuses the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fewest tokens.
    Low,
    /// Between the two.
    Medium,
    /// The provider's default.
    High,
}

impl Effort {
    /// The name on the wire and in options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}
