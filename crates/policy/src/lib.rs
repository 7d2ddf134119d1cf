//! Rules and facts to a decision
