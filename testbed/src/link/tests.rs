use super::*;

/// Answers every byte with the next one.
async fn echo() -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            all.spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if stream.write_u8(byte + 1).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, AbortOnDropHandle::new(task))
}

async fn ask(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
    stream.write_u8(byte).await?;
    stream.read_u8().await
}

#[tokio::test]
async fn a_link_is_what_the_weather_makes_of_it() {
    let (server, _serving) = echo().await;
    let link = Link::start(server).await.unwrap();
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);

    // What is not heard is late, not lost.
    link.set(Weather::Deaf(Way::Back)).await.unwrap();
    let waited = time::timeout(Duration::from_millis(50), ask(&mut stream, 5)).await;
    assert!(waited.is_err(), "{waited:?}");
    link.set(Weather::Slow(Duration::from_millis(1)))
        .await
        .unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 6);

    // Who is there stays, nobody else comes.
    link.set(Weather::Refusing).await.unwrap();
    assert_eq!(ask(&mut stream, 7).await.unwrap(), 8);
    let refused = TcpStream::connect(link.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    link.away().await.unwrap();
    assert!(ask(&mut stream, 9).await.is_err());

    link.set(Weather::Clear).await.unwrap();
    let mut stream = TcpStream::connect(link.address()).await.unwrap();
    assert_eq!(ask(&mut stream, 1).await.unwrap(), 2);
}
