//! `ask_user`: what is a question, and that the tool itself answers none.

use hames_protocol::*;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_question_is_for_a_person_and_changes_nothing() {
    let world = World::new();
    let examined = world.examine("ask_user", json!({"question": "Which\nport?"})).await;
    assert_eq!(examined.question.as_deref(), Some("Which\nport?"), "as the model wrote it");
    assert_eq!((examined.class, examined.reach, examined.touches.len()), (EffectClass::Pure, Reach::Private, 0));
    let run = world.run("ask_user", json!({"question": "Which?"})).await;
    assert_eq!(run.status, Status::Failed, "no tool answers for a person");
}

#[tokio::test]
async fn what_is_no_question_is_refused_in_sentences() {
    let world = World::new();
    let table = [
        (json!({}), "`ask_user` needs `question` (a string), which is missing."),
        (json!({"question": ["Which?"]}), "`ask_user` needs `question` as a string"),
        (json!({"question": " \n"}), "The question is empty."),
        (json!({"question": "x".repeat(2_001)}), "The question has 2,001 bytes, more than 2,000."),
    ];
    for (arguments, says) in table {
        let text = world.refused("ask_user", arguments.clone()).await;
        assert!(text.contains(says), "{arguments}: {text}");
    }
}
