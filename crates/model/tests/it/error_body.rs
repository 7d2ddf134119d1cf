//! Each provider's form of an error is told in a sentence, with what may be done next.

use hames_protocol::FailureKind::{Credential, Rejected, Setup, Transient};

use crate::served::{Answer, outcome};

#[tokio::test]
async fn every_form_of_an_error_body_is_told_in_a_sentence() {
    for (provider, status, body, kind, told) in [
        (
            "openai",
            401,
            r#"{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Credential,
            "(OPENAI_API_KEY)",
        ),
        (
            "openai",
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check your plan.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Credential,
            "exceeded your current quota",
        ),
        (
            "openai",
            429,
            r#"{"error":{"message":"Rate limit reached. Please try again in 6s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Transient,
            "Rate limit reached",
        ),
        (
            "openai-chat",
            400,
            r#"{"error":{"message":"Too long","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            Rejected,
            "Too long",
        ),
        (
            "openai-chat",
            404,
            r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
            Rejected,
            "Check the model's name and the base URL (OPENAI_BASE_URL)",
        ),
        (
            "gemini",
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}]"#,
            Credential,
            "(GEMINI_API_KEY)",
        ),
        (
            "gemini",
            429,
            r#"{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"6s"}]}}"#,
            Transient,
            "RESOURCE_EXHAUSTED: Quota exceeded",
        ),
        (
            "mistral",
            422,
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error"}"#,
            Rejected,
            "body.stream_options: Extra inputs are not permitted",
        ),
        (
            "vllm",
            422,
            r#"{"detail":[{"loc":["body","messages",0],"msg":"Field required","type":"missing"}]}"#,
            Rejected,
            "body.messages.0: Field required",
        ),
        (
            "vllm",
            400,
            r#"{"object":"error","message":"max_tokens is too large","type":"BadRequestError","code":400}"#,
            Rejected,
            "BadRequestError: max_tokens is too large",
        ),
        ("ollama", 404, r#"{"error":"model 'x' not found"}"#, Rejected, "model 'x' not found"),
        (
            "openrouter",
            429,
            r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"{\"error\":{\"message\":\"slow down\"}}","provider_name":"Lambda"}}}"#,
            Transient,
            "Provider returned error: Lambda said slow down",
        ),
        (
            "openrouter",
            402,
            r#"{"error":{"message":"Insufficient credits","code":402}}"#,
            Credential,
            "(OPENROUTER_API_KEY)",
        ),
        (
            "deepseek",
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#,
            Credential,
            "Insufficient Balance",
        ),
        (
            "xai",
            400,
            r#"{"code":"Client specified an invalid argument","error":"Unknown model"}"#,
            Rejected,
            "Unknown model",
        ),
        (
            "groq",
            413,
            r#"{"error":{"message":"Request too large","type":"tokens","code":"rate_limit_exceeded"}}"#,
            Rejected,
            "Request too large",
        ),
        (
            "openai-chat",
            502,
            "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
            Transient,
            "a web page: 502 Bad Gateway",
        ),
        ("openai-chat", 503, "upstream connect error", Transient, "upstream connect error"),
        ("openai-chat", 200, r#"{"id":"x","choices":[]}"#, Setup, "instead of an event stream"),
    ] {
        let answer = Answer::status(status, "content-type: application/json\r\n", body);
        let failure = outcome(provider, "m", answer).await.0.unwrap_err();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(told), "{told}: {failure}");
        assert!(failure.message.ends_with('.') && !failure.message.contains('\n'), "{failure}");
        if body.contains("6s") {
            assert_eq!(failure.retry_after_ms, Some(6_000));
        }
    }
}
