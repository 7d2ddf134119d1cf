//! Whatever goes wrong is told in a sentence, with what may be done next.

use std::time::Duration;

use hames_model::{Client, ClientConfig};
use hames_protocol::FailureKind;
use hames_protocol::port::Model;

use crate::served::{Answer, End, KEY, MODEL, START, Served, ask, failure, hello, request, sse, text_reply};

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn a_status_says_what_may_be_done() {
    use FailureKind::{Credential, Rejected, Setup, Transient};
    for (status, kind) in [
        (408, Transient),
        (409, Transient),
        (429, Transient),
        (500, Transient),
        (502, Transient),
        (503, Transient),
        (529, Transient),
        (401, Credential),
        (402, Credential),
        (403, Credential),
        (400, Rejected),
        (404, Rejected),
        (413, Rejected),
        (422, Rejected),
        (307, Setup),
    ] {
        let body = r#"{"type":"error","error":{"type":"some_error","message":"Because."},"request_id":"req_1"}"#;
        let failure = failure(Answer::status(status, JSON, body)).await;
        assert_eq!(failure.kind, kind, "{status}");
        assert!(failure.message.contains(&status.to_string()) && failure.message.contains("127.0.0.1"), "{failure}");
        assert!(failure.message.ends_with('.'), "{failure}");
        if kind != Setup {
            assert!(failure.message.contains("some_error: Because"), "{failure}");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_is_too_long_stays_rejected() {
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#;
    let failure = failure(Answer::status(400, JSON, body)).await;
    assert_eq!(failure.kind, FailureKind::Rejected);
    assert!(failure.message.contains("prompt is too long: 210000 tokens"), "{failure}");
}

#[tokio::test]
async fn any_body_is_told_bounded_and_on_one_line() {
    for (body, told) in [
        ("<html>\r\n<body>\u{1b}[31m502   Bad\u{7}Gateway</body>", "a web page: [31m502 Bad Gateway"),
        (r#"{"error":"no such route"}"#, "no such route"),
        (r#"{"message":"proxy says no"}"#, "proxy says no"),
        (r#"{"detail":"not here"}"#, "not here"),
        (r#"{"error":{"code":7}}"#, r#"{"error":{"code":7}}"#),
        ("", "it gave no reason"),
    ] {
        let failure = failure(Answer::status(502, "content-type: text/html\r\n", body)).await;
        assert!(failure.message.contains(told), "{failure}");
        assert!(!failure.message.chars().any(char::is_control), "{failure:?}");
    }
    let long = failure(Answer::status(502, "", &"é".repeat(100_000))).await;
    assert!(long.message.contains(&format!("{}…", "é".repeat(300))), "{long}");
    let cut = failure(Answer::status(502, "", "half an explana").ending(End::Cut)).await;
    assert!(cut.message.contains("half an explana"), "{cut}");
}

#[tokio::test]
async fn an_echoed_key_goes_no_further() {
    let event = sse(&[
        START,
        &format!(
            r#"{{"type":"error","error":{{"type":"authentication_error","message":"{}{KEY} is bad"}}}}"#,
            "x".repeat(290)
        ),
    ]);
    let location = format!("location: https://elsewhere.example/?key={KEY}\r\n");
    for answer in [
        Answer::status(
            401,
            JSON,
            &format!(r#"{{"error":{{"type":"authentication_error","message":"bad key {KEY}"}}}}"#),
        ),
        Answer::status(500, "", &format!("{}{KEY}", "x".repeat(290))),
        Answer::status(302, &location, ""),
        Answer::stream(event),
    ] {
        let failure = failure(answer).await;
        assert!(!failure.message.contains(&KEY[..8]), "{failure}");
        assert!(failure.message.contains("[key]"), "{failure}");
    }
}

#[tokio::test]
async fn the_users_own_headers_are_sent_and_their_values_go_no_further() {
    let served = Served::new(vec![Answer::status(500, "", "who is Bearer canary-4711?")]).await;
    let headers = vec![("x-gateway".to_owned(), "Bearer canary-4711".to_owned())];
    let config = ClientConfig { headers, base_url: Some(served.url.clone()), ..ClientConfig::anthropic(MODEL, KEY) };
    let failure = ask(&Client::new(config).unwrap()).await.0.unwrap_err();
    assert_eq!(served.requests()[0].header("x-gateway"), Some("Bearer canary-4711"));
    assert!(failure.message.contains("who is [key]?"), "{failure}");
    for (name, value) in [("not a word", "x"), ("x-a", "two\nlines")] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let problem = Client::new(ClientConfig { headers, ..ClientConfig::anthropic(MODEL, KEY) }).err().unwrap();
        assert!(problem.message.contains(name) && !problem.message.contains("lines"), "{problem}");
    }
}

#[tokio::test]
async fn an_error_event_after_a_good_status_is_classified_by_its_type() {
    use FailureKind::{Credential, Rejected, Transient};
    for (name, kind) in [
        ("overloaded_error", Transient),
        ("rate_limit_error", Transient),
        ("api_error", Transient),
        ("timeout_error", Transient),
        ("novel_error", Transient),
        ("invalid_request_error", Rejected),
        ("authentication_error", Credential),
        ("permission_error", Credential),
    ] {
        let error = format!(r#"{{"type":"error","error":{{"type":"{name}","message":"Told."}}}}"#);
        let failure = failure(Answer::stream(sse(&[START, &error]))).await;
        assert_eq!(failure.kind, kind, "{name}");
        assert!(failure.message.contains(&format!("{name}: Told")), "{failure}");
        assert_eq!(failure.usage.unwrap().input_tokens, 25);
    }
    let plain = failure(Answer::stream("event: error\ndata: upstream went away, try again in 3s\n\n")).await;
    assert_eq!((plain.kind, plain.retry_after_ms), (Transient, Some(3_000)));
    assert!(plain.message.contains("upstream went away"), "{plain}");
}

#[tokio::test]
async fn a_good_status_without_an_event_stream_is_told_as_such() {
    let page = failure(Answer::status(200, "content-type: text/html\r\n", "<html>Sign in to the network</html>")).await;
    assert_eq!(page.kind, FailureKind::Setup);
    assert!(page.message.contains("text/html instead of an event stream"), "{page}");
    assert!(page.message.contains("Sign in to the network") && page.message.contains("base URL"), "{page}");
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}"#;
    assert_eq!(failure(Answer::status(200, JSON, error)).await.kind, FailureKind::Transient);
    let empty = failure(Answer::status(204, "", "")).await;
    assert_eq!(empty.kind, FailureKind::Setup);
    let untyped = Answer {
        head: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
        ..Answer::stream(text_reply("hi"))
    };
    let served = Served::new(vec![untyped]).await;
    assert_eq!(ask(&served.client()).await.0.unwrap().text(), "hi");
}

#[tokio::test]
async fn hints_how_long_to_wait_are_passed_on() {
    let error = r#"{"type":"error","error":{"type":"rate_limit_error","message":"quota will reset after 12h34m16s"}}"#;
    for (headers, body, ms) in [
        ("retry-after: 2\r\n", "", Some(2_000)),
        ("retry-after: 1.5\r\n", "", Some(1_500)),
        ("retry-after-ms: 700\r\nretry-after: 9\r\n", "", Some(700)),
        ("retry-after: 86400\r\n", "", Some(86_400_000)),
        ("retry-after: banana\r\n", "", None),
        ("", r#"{"error":{"details":[{"retryDelay":"2s"}]}}"#, Some(2_000)),
        ("", error, Some(45_256_000)),
        ("", "", None),
    ] {
        assert_eq!(failure(Answer::status(429, headers, body)).await.retry_after_ms, ms, "{headers}{body}");
    }
    let at = std::time::SystemTime::now() + Duration::from_secs(3600);
    let date = format!("retry-after: {}\r\n", httpdate::fmt_http_date(at));
    let ms = failure(Answer::status(429, &date, "")).await.retry_after_ms.unwrap();
    assert!((3_000_000..=3_600_000).contains(&ms), "{ms}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Served::new(vec![Answer::stream(text_reply("hi"))]).await;
    let location = format!("location: {}/v1/messages\r\n", elsewhere.url);
    let failure = failure(Answer::status(308, &location, "")).await;
    assert_eq!(failure.kind, FailureKind::Setup);
    assert!(failure.message.contains(&elsewhere.url), "{failure}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn silence_is_not_waited_for_without_end() {
    let short = |config: &mut ClientConfig| config.idle_timeout = Duration::from_millis(300);
    let mid_stream = Answer::stream(sse(&[START])).ending(End::Silent);
    let before_headers = Answer { head: String::new(), chunks: Vec::new(), end: End::Silent };
    let error_body = Answer::status(529, "", "Overl").ending(End::Silent);
    for (answer, told) in
        [(mid_stream, "silent for 300 ms"), (before_headers, "silent for 300 ms"), (error_body, "Overl")]
    {
        let served = Served::new(vec![answer]).await;
        let failure = ask(&served.client_with(short)).await.0.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Transient);
        assert!(failure.message.contains(told), "{failure}");
        served.until_closed_by_client().await;
    }
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let served = Served::new(vec![Answer::stream(sse(&[START])).ending(End::Silent)]).await;
    let client = served.client();
    let mut send = client.send(request(&client, &[hello()]), &|_| {});
    while served.requests().is_empty() {
        let _ = tokio::time::timeout(Duration::from_millis(1), &mut send).await;
    }
    drop(send);
    served.until_closed_by_client().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_the_cause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:{KEY}@{}", listener.local_addr().unwrap());
    drop(listener);
    let host = url.split('@').nth(1).unwrap().to_owned();
    let client = Client::new(ClientConfig { base_url: Some(url), ..ClientConfig::anthropic(MODEL, KEY) }).unwrap();
    let failure = ask(&client).await.0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Transient);
    assert!(failure.message.contains(&host) && failure.message.contains("refused"), "{failure}");
    assert!(!failure.message.contains(KEY), "{failure}");
}

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_may_be_retried() {
    let failure = failure(Answer { head: String::new(), chunks: Vec::new(), end: End::Cut }).await;
    assert_eq!(failure.kind, FailureKind::Transient);
    assert!(failure.message.contains("Lost the connection to 127.0.0.1"), "{failure}");
}

/// A server that wants no key is given any word, which then stands in ordinary sentences as well.
#[tokio::test]
async fn a_word_that_is_too_short_for_a_key_is_left_in_the_text() {
    let served = Served::new(vec![Answer::status(401, JSON, "{}")]).await;
    let (result, _) = ask(&served.client_with(|config| config.key = Some("k".to_owned()))).await;
    assert!(result.unwrap_err().message.contains("Check the API key"));
}
