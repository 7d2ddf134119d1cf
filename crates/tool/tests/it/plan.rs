//! `plan`: the list as it was sent, and what is no list.

use hames_protocol::*;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn the_plan_comes_back_as_a_list() {
    let world = World::new();
    let items = json!([
        {"text": "Read the code", "status": "done"},
        {"text": " Fix\nit\u{1b}[2J ", "status": "in_progress"},
        {"text": "Test", "status": "pending"},
    ]);
    let result = world.ok("plan", json!({ "items": items })).await;
    assert_eq!(result.text(), "[x] Read the code\n[>] Fix\\nit\\u{1b}[2J\n[ ] Test");
    assert_eq!(result.data["plan"], items);
    assert_eq!(world.ok("plan", json!({"items": []})).await.text(), "The plan is empty.");
    let examined = world.examine("plan", json!({"items": []})).await;
    assert_eq!((examined.class, examined.reach, examined.touches.len()), (EffectClass::Pure, Reach::Private, 0));
}

#[tokio::test]
async fn what_is_no_plan_is_refused_in_sentences() {
    let world = World::new();
    let table = [
        (json!(["Read"]), "`plan` needs `items/0` as an object; got the string \"Read\"."),
        (json!([{"text": "a"}]), "`plan` needs `items/0/status`, which is missing."),
        (json!([{"text": "a", "status": "open"}]), "`plan` needs `items/0/status` to be one of "),
        (
            json!([{"text": "a", "status": "done", "id": 1}]),
            "`items/0` of `plan` has no `id`. It takes `text`, `status`.",
        ),
        (json!([{"text": "a", "status": "done"}, {"text": " ", "status": "done"}]), "Item 2 of the plan has no text."),
        (json!(vec![json!({"text": "a", "status": "done"}); 51]), "The plan has 51 items, more than 50."),
    ];
    for (items, says) in table {
        let text = world.refused("plan", json!({ "items": items })).await;
        assert!(text.contains(says), "{items}: {text}");
    }
}
