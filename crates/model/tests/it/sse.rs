//! What the network does to a stream changes nothing in the reply.

use hames_protocol::{Arguments, Delta, FailureKind, PartKind};

use crate::served::{Answer, KEY, MODEL, Served, ask, failure, reply, reply_of, text_reply};

const TEXT: &str = "北京 naïve 😀 end";

#[tokio::test]
async fn characters_cut_by_chunk_edges_arrive_whole_in_text_and_arguments() {
    let body = reply_of(
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"北京 na"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ïve 😀"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" end"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"echo 北"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"京😀\"}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
        ],
        "tool_use",
    );
    let every_byte: Vec<_> = body.bytes().map(|byte| [byte].to_vec()).collect();
    let at = |cut: usize| vec![body.as_bytes()[..cut].to_vec(), body.as_bytes()[cut..].to_vec()];
    let han = body.find('北').unwrap() + 1;
    let emoji = body.find('😀').unwrap() + 2;
    for chunks in [every_byte, at(han), at(emoji)] {
        let served = Served::new(vec![Answer::stream_in(chunks)]).await;
        let (result, deltas) = ask(&served.client()).await;
        let reply = result.unwrap();
        assert_eq!(reply.text(), TEXT);
        assert_eq!(reply.parts[0].native.as_str(), format!(r#"{{"type":"text","text":"{TEXT}"}}"#));
        let call = reply.calls().next().unwrap();
        let Arguments::Whole(arguments) = &call.arguments else { panic!("{call:?}") };
        assert_eq!(arguments["command"], "echo 北京😀");
        let shown: String = deltas
            .iter()
            .filter_map(|delta| match delta {
                Delta::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(shown, TEXT);
    }
}

#[tokio::test]
async fn every_line_end_and_every_cut_give_the_same_text_whatever_stands_between() {
    let events = text_reply("The answer is 42.");
    let (before, after) = events.split_at(events.find("event: content_block_stop").unwrap());
    let noise = ": keep-alive\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: novelty\ndata: not JSON\n\n\
                 event: novelty\ndata:{\"type\":\"novelty\",\"index\":\"x\"}\n\nretry: 10\nid: 4\nwhatever\n\n";
    let text = format!("{before}{noise}{after}")
        .replace("data: {\"type\":\"content_block_start", "data:{\"type\":\"content_block_start");
    for end in ["\n", "\r\n", "\r"] {
        let text = text.replace('\n', end);
        let answers: Vec<_> = (0..=text.len()).map(|cut| [&text.as_bytes()[..cut], &text.as_bytes()[cut..]]).collect();
        let served = Served::new(answers.into_iter().map(Answer::stream_in).collect()).await;
        let client = served.client();
        for cut in 0..=text.len() {
            let reply = ask(&client).await.0.unwrap();
            assert_eq!(reply.text(), "The answer is 42.", "line end {end:?}, cut at {cut}");
        }
    }
}

#[tokio::test]
async fn a_stream_of_comments_is_a_failure_that_may_be_retried() {
    let failure = failure(Answer::stream(": hm\n\n: hm\n\n")).await;
    assert_eq!(failure.kind, FailureKind::Transient);
    assert!(failure.message.contains("ended before its end event"), "{failure}");
}

#[tokio::test]
async fn event_names_may_be_missing_and_a_foreign_last_event_is_ignored() {
    let body: String =
        text_reply("hi").lines().filter(|line| !line.starts_with("event")).map(|line| format!("{line}\n")).collect();
    let reply = reply(Answer::stream(format!("\u{feff}{body}data: [DONE]\n\n"))).await;
    assert!(matches!(&reply.parts[0].kind, PartKind::Text(text) if text == "hi"));
    assert_eq!(reply.model, MODEL);
    assert!(!format!("{reply:?}").contains(KEY));
}
