//! The client of a server: its sockets, and TLS, perhaps with some checks of the server's certificate skipped.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt as _};
use percent_encoding::percent_decode_str;
use tokio::time::timeout;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{
    WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};

use tower::util::{MapErrLayer, MapRequest};
use tower::{BoxError, Service, service_fn};

use super::departure::asking;
use crate::errors::chain;

/// The time limit for opening a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks of a server's certificate that are skipped. An authority must have signed it in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedTlsChecks {
    pub subject_name: bool,
    pub validity_period: bool,
}

impl SkippedTlsChecks {
    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// A client whose requests ask when they are put on the wire, and that leaves out these checks.
pub(super) fn client(
    config: &kube::Config,
    unchecked: SkippedTlsChecks,
) -> Result<kube::Client, String> {
    let mut tls = (config.rustls_client_config()).map_err(|error| chain(&error))?;
    if !unchecked.is_nothing() {
        let verifier = LenientVerifier::new(roots(config)?, unchecked)?;
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    let Some(proxy) = &config.proxy_url else {
        return client_by(http, tls, config);
    };
    match proxy.scheme_str() {
        Some("socks5") => client_by(SocksV5::new(proxy.clone(), http), tls, config),
        Some("http") => client_by(tunnel(proxy, http)?, tls, config),
        Some("https") if unchecked.is_nothing() => {
            let https = config.rustls_https_connector_with_connector(http);
            let https = https.map_err(|error| chain(&error))?;
            client_by(tunnel(proxy, https)?, tls, config)
        }
        _ => Err(
            "a proxy that is reached by https cannot be used while parts of the certificate are not checked"
                .into(),
        ),
    }
}

fn roots(config: &kube::Config) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(given) = &config.root_cert {
        for authority in given {
            let added = roots.add(CertificateDer::from(authority.as_slice()));
            added.map_err(|error| chain(&error))?;
        }
    } else {
        // Not every installed one has to be understood.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if roots.is_empty() {
        return Err("no certificate authorities are given or installed".to_owned());
    }
    Ok(roots)
}

/// The way through a proxy, with the password of its URL.
fn tunnel<C>(proxy: &Uri, connector: C) -> Result<Tunnel<C>, String> {
    let way = Tunnel::new(proxy.clone(), connector);
    let authority = proxy.authority().map_or("", |authority| authority.as_str());
    let Some((user, _)) = authority.rsplit_once('@') else {
        return Ok(way);
    };
    let user: Vec<u8> = percent_decode_str(user).collect();
    let header = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(user)));
    Ok(way.with_auth(header.map_err(|error| chain(&error))?))
}

fn client_by<C>(
    connector: C,
    tls: ClientConfig,
    config: &kube::Config,
) -> Result<kube::Client, String>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin,
    C::Future: Send,
    C::Error: Into<BoxError>,
{
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    let https = match &config.tls_server_name {
        None => https,
        Some(name) => {
            let name = name.clone().try_into();
            let name = name.map_err(|_| "tls-server-name is not a name of a server".to_owned())?;
            https.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
    };
    let https = https.enable_http1().wrap_connector(connector);
    let in_time = service_fn(move |to: Uri| {
        let connected = https.clone().call(to);
        Box::pin(async move { timeout(CONNECT_TIMEOUT, connected).await? })
    });
    let http = HttpClient::builder(TokioExecutor::new()).build(in_time);
    let headers = config
        .extra_headers_layer()
        .map_err(|error| chain(&error))?;
    let credentials = config.auth_layer().map_err(|error| chain(&error))?;
    let plain = ClientBuilder::new(MapRequest::new(http, asking), &*config.default_namespace)
        .with_layer(&MapErrLayer::new(BoxError::from))
        .with_layer(&config.base_uri_layer());
    Ok(match credentials {
        Some(credentials) => plain.with_layer(&credentials).with_layer(&headers).build(),
        None => plain.with_layer(&headers).build(),
    })
}

#[derive(Debug)]
struct LenientVerifier {
    roots: Arc<RootCertStore>,
    /// Checks signatures.
    strict: Arc<WebPkiServerVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
    unchecked: SkippedTlsChecks,
}

impl LenientVerifier {
    fn new(roots: RootCertStore, unchecked: SkippedTlsChecks) -> Result<Self, String> {
        let roots = Arc::new(roots);
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let strict = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider);
        Ok(Self {
            strict: strict.build().map_err(|error| chain(&error))?,
            roots,
            algorithms,
            unchecked,
        })
    }
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !self.unchecked.subject_name {
            verify_server_name(&certificate, server_name)?;
        }
        let signed = |now| {
            let (roots, all) = (&self.roots, self.algorithms.all);
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, all)
        };
        let mut result = signed(now);
        // Each certificate of the chain may be valid at another time.
        for _ in 0..=intermediates.len() {
            let then = match &result {
                Err(TlsError::InvalidCertificate(CertificateError::ExpiredContext {
                    not_after,
                    ..
                })) => *not_after,
                Err(TlsError::InvalidCertificate(CertificateError::NotValidYetContext {
                    not_before,
                    ..
                })) => *not_before,
                _ => break,
            };
            if !self.unchecked.validity_period {
                break;
            }
            result = signed(then);
        }
        result.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.strict
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.strict
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
    };
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;

    use super::*;
    use crate::cluster::connection::{Call, Connection, Limits};

    type ProxyUrl = Option<String>;

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A server with a certificate for this name until this year, and what a connection to it says.
    async fn says(
        name: &str,
        until: i32,
        known: bool,
        unchecked: SkippedTlsChecks,
        proxy: ProxyUrl,
    ) -> Option<u16> {
        let authority = authority();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let provider = Arc::new(ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                read.push(stream.read_u8().await.unwrap());
            }
            let text = String::from_utf8_lossy(&read).to_lowercase();
            assert!(text.contains("authorization: bearer secret"), "{text}");
            let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            stream.write_all(reply).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let mut config = kube::Config::new(url.parse().unwrap());
        let trusted = if known { authority } else { self::authority() };
        config.root_cert = Some(vec![trusted.der().to_vec()]);
        config.auth_info.token = Some("secret".to_owned().into());
        config.proxy_url = proxy.map(|url| url.parse().unwrap());
        let limits = Limits {
            unchecked,
            ..Limits::default()
        };
        let reply = Connection::new(config, limits).unwrap();
        let reply = reply.call(Call::get("/version")).await;
        serving.await.unwrap();
        reply.ok().map(|reply| reply.status)
    }

    #[tokio::test]
    async fn what_is_switched_off_is_not_checked_and_nothing_else() {
        let of = |subject_name, validity_period| SkippedTlsChecks {
            subject_name,
            validity_period,
        };
        let (right, wrong) = ("127.0.0.1", "elsewhere.example.com");
        for (name, until, unchecked, passes) in [
            (right, 2100, of(false, false), true),
            (wrong, 2100, of(false, false), false),
            (right, 2020, of(false, false), false),
            (wrong, 2100, of(true, false), true),
            (right, 2020, of(true, false), false),
            (wrong, 2100, of(false, true), false),
            (right, 2020, of(false, true), true),
            (wrong, 2020, of(true, true), true),
        ] {
            let reply = says(name, until, true, unchecked, None).await;
            assert_eq!(reply.is_some(), passes, "{name} {until} {unchecked:?}");
        }
        let reply = says(right, 2100, false, of(true, true), None).await;
        assert_eq!(reply, None, "of another authority");
    }

    /// A proxy for one connection, which wants a password.
    async fn proxy() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://me:p%40ss@{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                read.push(stream.read_u8().await.unwrap());
            }
            let text = String::from_utf8(read).unwrap();
            let password = format!("Basic {}", STANDARD.encode("me:p@ss"));
            assert!(text.contains(&password), "{text}");
            let to = text.strip_prefix("CONNECT ").unwrap().split(' ').next();
            let mut there = TcpStream::connect(to.unwrap()).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut there).await;
        });
        url
    }

    #[tokio::test]
    async fn the_same_is_checked_behind_a_proxy() {
        let lenient = SkippedTlsChecks {
            subject_name: true,
            validity_period: false,
        };
        for (until, passes) in [(2100, true), (2020, false)] {
            let name = "elsewhere.example.com";
            let reply = says(name, until, true, lenient, Some(proxy().await)).await;
            assert_eq!(reply.is_some(), passes, "{until}");
        }
        let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        config.root_cert = Some(vec![authority().der().to_vec()]);
        config.proxy_url = Some("https://127.0.0.1:2".parse().unwrap());
        let problem = client(&config, lenient).err().unwrap();
        assert!(problem.contains("proxy"), "{problem}");
        config.root_cert = Some(Vec::new());
        let problem = client(&config, lenient).err().unwrap();
        assert!(problem.contains("authorities"), "{problem}");
    }
}
