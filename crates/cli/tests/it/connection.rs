//! The way to the provider as the environment makes it: proxies, exempt hosts, trusted roots, headers of the user's own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::place::{Place, Ran};
use crate::provider::{Beside, Provider};

/// A host that no name server knows: only a proxy leads there.
const HOST: &str = "api.provider.test";

const ANSWER: &str = "- text: '42'\n- text: '43'\n- text: '44'\n- text: '45'\n";

/// A proxy that notes the head of each request and leads to one address, whatever it is asked for.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _beside: Beside,
}

impl Proxy {
    /// A proxy before `target` that wants these credentials, in base64.
    fn before(target: SocketAddr, credentials: Option<&'static str>) -> Self {
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heads);
        let (address, beside) = Beside::begin(move || async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(lead(client, target, credentials, Arc::clone(&noted)));
                }
            });
            address
        });
        Self { address, heads, _beside: beside }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn lead(
    mut client: TcpStream,
    target: SocketAddr,
    credentials: Option<&str>,
    noted: Arc<Mutex<Vec<String>>>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    noted.lock().unwrap().push(head.clone());
    if credentials.is_some_and(|wanted| !head.contains(&format!("Basic {wanted}"))) {
        let length = "content-length: 0\r\nconnection: close\r\n";
        let refusal =
            format!("HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n{length}\r\n");
        return client.write_all(refusal.as_bytes()).await;
    }
    let mut server = TcpStream::connect(target).await?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    } else {
        server.write_all(&bytes).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}

/// A provider behind TLS, and the root certificate that vouches for it.
struct Secured {
    address: SocketAddr,
    root: String,
    _beside: Beside,
}

impl Secured {
    fn before(target: SocketAddr, host: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &root).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (address, beside) = Beside::begin(move || async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let mut client = acceptor.accept(socket).await?;
                        let mut server = TcpStream::connect(target).await?;
                        copy_bidirectional(&mut client, &mut server).await
                    });
                }
            });
            address
        });
        Self { address, root: root.pem(), _beside: beside }
    }

    /// Writes the root certificate to a file beside the workspace.
    fn root_in(&self, place: &Place, name: &str) -> String {
        let file = place.work().parent().unwrap().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &self.root).unwrap();
        file.to_str().unwrap().to_owned()
    }
}

fn run(place: &Place, base_url: &str, variables: &[(&str, &str)], more: &[&str]) -> Ran {
    let mut command = place.hames(["run", "go"].into_iter().chain(more.iter().copied()));
    command.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", base_url).envs(variables.iter().copied());
    Ran::of(command.output().unwrap())
}

#[test]
fn tls_goes_through_the_proxy_and_is_trusted_by_the_roots_that_the_environment_names() {
    let provider = Provider::of(ANSWER);
    let secured = Secured::before(provider.address(), HOST);
    let proxy = Proxy::before(secured.address, Some("bWU6Y2FuYXJ5LXBhc3M="));
    let place = Place::empty();
    let file = secured.root_in(&place, "root.pem");
    let folder = secured.root_in(&place, "roots/any.pem");
    let folder = Path::new(&folder).parent().unwrap().to_str().unwrap();
    let with_scheme = format!("http://me:canary-pass@{}", proxy.address);
    let without_scheme = format!("me:canary-pass@{}", proxy.address);
    for (variable, value, roots) in [
        ("HTTPS_PROXY", &with_scheme, ("SSL_CERT_FILE", file.as_str())),
        ("https_proxy", &without_scheme, ("SSL_CERT_FILE", file.as_str())),
        ("ALL_PROXY", &with_scheme, ("SSL_CERT_DIR", folder)),
    ] {
        let variables = [(variable, value.as_str()), roots, ("HTTP_PROXY", "http://127.0.0.1:9")];
        let ran = run(&Place::empty(), &format!("https://{HOST}"), &variables, &[]);
        assert_eq!(ran.code, 0, "{variable}: {}", ran.stderr);
        let head = proxy.heads().pop().unwrap();
        assert!(head.starts_with(&format!("CONNECT {HOST}:443 HTTP/1.1\r\n")), "{head}");
        assert!(!head.contains("any"), "the key is not for the proxy: {head}");
    }
    assert_eq!(provider.received().len(), 3);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_once_with_the_remedy() {
    let provider = Provider::of(ANSWER);
    let (secured, other) = (Secured::before(provider.address(), HOST), Secured::before(provider.address(), "b.test"));
    let check = |secured: &Secured, root: &Secured, words: [&str; 2]| {
        let place = Place::empty();
        let proxy = Proxy::before(secured.address, None);
        let (file, value) = (root.root_in(&place, "root.pem"), proxy.address.to_string());
        let ran = run(&place, &format!("https://{HOST}"), &[("HTTPS_PROXY", &value), ("SSL_CERT_FILE", &file)], &[]);
        assert_eq!(ran.code, 6, "{}", ran.stderr);
        assert!(words.iter().all(|word| ran.stdout.contains(word)), "{}", ran.stdout);
        assert_eq!(proxy.heads().len(), 1, "trying again cannot help");
    };
    check(&secured, &other, ["is not trusted", "SSL_CERT_FILE"]);
    check(&other, &other, ["is for another name", "base URL"]);
    let place = Place::empty();
    let ran = run(&place, &format!("https://{HOST}"), &[("SSL_CERT_FILE", "/nowhere.pem")], &[]);
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stdout.contains("SSL_CERT_FILE") && ran.stdout.contains("ca-certificates"), "{}", ran.stdout);
    assert_eq!(provider.received().len(), 0);
}

#[test]
fn plain_http_goes_through_its_proxy_unless_the_host_is_exempt() {
    let provider = Provider::of(ANSWER);
    let proxy = Proxy::before(provider.address(), None);
    let proxy_url = format!("http://{}", proxy.address);
    let ran = run(&Place::empty(), &format!("http://{HOST}"), &[("HTTP_PROXY", &proxy_url)], &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let line = format!("POST http://{HOST}/v1/messages HTTP/1.1\r\n");
    assert!(proxy.heads()[0].starts_with(&line), "{:?}", proxy.heads());
    // This machine under a name that is not taken for it.
    let here = format!("http://0.0.0.0:{}", provider.address().port());
    for (exempt, through) in [
        ("other.test", 2),
        ("0.0.0.0", 2),
        (&here["http://".len()..], 2),
        ("0.0.0.0/8,x", 2),
        ("*", 2),
        ("0.0.0.0:1", 3),
    ] {
        let ran = run(&Place::empty(), &here, &[("http_proxy", &proxy_url), ("NO_PROXY", exempt)], &[]);
        assert_eq!(ran.code, 0, "{exempt}: {}", ran.stderr);
        assert_eq!(proxy.heads().len(), through, "{exempt}");
    }
    let ran = run(&Place::empty(), &provider.base_url(), &[("HTTP_PROXY", &proxy_url)], &[]);
    assert_eq!(
        (ran.code, proxy.heads().len()),
        (0, 3),
        "a provider on this machine is reached directly: {}",
        ran.stderr
    );
}

#[test]
fn a_proxy_that_does_not_lead_on_is_named_and_its_credentials_are_not() {
    let provider = Provider::of(ANSWER);
    let secured = Secured::before(provider.address(), HOST);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wary = Proxy::before(provider.address(), Some("b3RoZXI="));
    for (base_url, address, words) in [
        (format!("https://{HOST}"), closed, ["Cannot connect to", "HTTPS_PROXY", "NO_PROXY"]),
        (format!("https://{HOST}"), wary.address, ["credentials", "HTTPS_PROXY", "NAME:PASSWORD"]),
        (format!("http://{HOST}"), wary.address, ["credentials", "HTTP_PROXY", "NAME:PASSWORD"]),
    ] {
        let place = Place::empty();
        let file = secured.root_in(&place, "root.pem");
        let value = format!("http://canary-name:canary-pass@{address}");
        let variables = [("HTTPS_PROXY", value.as_str()), ("HTTP_PROXY", &value), ("SSL_CERT_FILE", &file)];
        let ran = run(&place, &base_url, &variables, &["--max-time", "1s"]);
        // A proxy that may come back is waited for, as far as the time allows: the limit may be met first.
        assert!(ran.code == 6 || (address == closed && ran.code == 3), "{}", ran.stderr);
        let told = ran.stdout + &ran.stderr;
        assert!(words.iter().all(|word| told.contains(word)) && told.contains(&address.to_string()), "{told}");
        assert!(!told.contains("canary") && !place.raw_log().contains("canary"), "{told}");
    }
    assert_eq!(wary.heads().len(), 2, "asking again cannot help");
}

#[test]
fn a_proxy_that_is_none_is_a_usage_error_and_no_request_leaves() {
    for value in ["ftp://me:canary@127.0.0.1:1", "http://me:canary@", "http://me:canary@127.0.0.1:port"] {
        let ran = run(&Place::empty(), &format!("https://{HOST}"), &[("HTTPS_PROXY", value)], &[]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("The proxy in HTTPS_PROXY cannot be used"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
    }
}

#[test]
fn headers_are_the_users_and_never_the_repositorys() {
    let provider = Provider::of(ANSWER);
    let place = Place::empty();
    let table = |headers: &str| {
        let url = provider.base_url();
        format!(
            "[providers.gate]\ndialect = \"anthropic\"\nbase_url = \"{url}\"\nkey_env = \"K\"\nheaders = {headers}\n"
        )
    };
    let home = place.work().parent().unwrap().join("home/.config/hames");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("config.toml"), table("{ x-team = \"blue\", anthropic-beta = \"canary-beta\" }")).unwrap();
    std::fs::create_dir(place.work().join(".hames")).unwrap();
    std::fs::write(place.work().join(".hames/config.toml"), table("{ x-team = \"red\", x-evil = \"1\" }")).unwrap();
    let ran = Ran::of(place.hames(["run", "-m", "gate/any", "go"]).env("K", "any-key-4711").output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("`providers` is ignored"), "{}", ran.stderr);
    let headers = provider.received().pop().unwrap().headers;
    assert!(headers["x-team"] == "blue" && headers["anthropic-beta"] == "canary-beta");
    assert!(!headers.contains_key("x-evil") && headers["x-api-key"] == "any-key-4711");
    assert!(!place.raw_log().contains("canary-beta") && !place.raw_log().contains("any-key-4711"));
}
