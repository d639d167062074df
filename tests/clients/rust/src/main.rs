//! rskafka behind the contract of tests/clients/contract.py.
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rskafka::client::error::Error as KafkaError;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use serde_json::{json, Value};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a step is not done: the client has no such thing, or an error with its name.
enum Not {
    Lacks(String),
    Refused(String, String),
}

type Done = Result<Value, Not>;

impl From<KafkaError> for Not {
    fn from(error: KafkaError) -> Self {
        let name = match &error {
            KafkaError::ServerError { protocol_error, .. } => format!("{protocol_error:?}"),
            _ => "Client".to_string(),
        };
        Not::Refused(name, error.to_string())
    }
}

impl From<io::Error> for Not {
    fn from(error: io::Error) -> Self {
        Not::Refused("Io".to_string(), error.to_string())
    }
}

fn text<'a>(step: &'a Value, name: &str) -> &'a str {
    step[name].as_str().unwrap_or_default()
}

fn number(step: &Value, name: &str) -> usize {
    step[name].as_u64().unwrap_or_default() as usize
}

fn encrypted(tls: &Value) -> Result<rustls::ClientConfig, Not> {
    let read = |name: &str| -> Result<BufReader<File>, Not> { Ok(BufReader::new(File::open(text(tls, name))?)) };
    let mut roots = rustls::RootCertStore::empty();
    for one in rustls_pemfile::certs(&mut read("ca")?) {
        roots.add(one?).map_err(|error| Not::Refused("Tls".into(), error.to_string()))?;
    }
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    if tls["certificate"].is_null() {
        return Ok(builder.with_no_client_auth());
    }
    let chain = rustls_pemfile::certs(&mut read("certificate")?).collect::<Result<Vec<_>, _>>()?;
    let key = rustls_pemfile::private_key(&mut read("key")?)?;
    let key = key.ok_or_else(|| Not::Refused("Tls".into(), "no key".into()))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| Not::Refused("Tls".into(), error.to_string()))
}

fn login(sasl: &Value) -> Result<SaslConfig, Not> {
    let by = Credentials::new(text(sasl, "user").into(), text(sasl, "password").into());
    match text(sasl, "mechanism") {
        "PLAIN" => Ok(SaslConfig::Plain(by)),
        "SCRAM-SHA-256" => Ok(SaslConfig::ScramSha256(by)),
        "SCRAM-SHA-512" => Ok(SaslConfig::ScramSha512(by)),
        "OAUTHBEARER" => {
            let token = text(sasl, "token").to_string();
            let callback = Arc::new(move || {
                let token = token.clone();
                Box::pin(async move { Ok(token) }) as std::pin::Pin<Box<dyn std::future::Future<Output = _> + Send>>
            });
            Ok(SaslConfig::Oauthbearer(rskafka::client::OauthBearerCredentials { callback, authz_id: None, bearer_kvs: vec![] }))
        }
        other => Err(Not::Lacks(other.into())),
    }
}

async fn connected(connection: &Value) -> Result<Client, Not> {
    let mut builder = ClientBuilder::new(vec![text(connection, "bootstrap").to_string()]);
    if !connection["tls"].is_null() {
        builder = builder.tls_config(Arc::new(encrypted(&connection["tls"])?));
    }
    if !connection["sasl"].is_null() {
        builder = builder.sasl_config(login(&connection["sasl"])?);
    }
    Ok(builder.build().await?)
}

async fn partition(client: &Client, step: &Value, one: usize) -> Result<PartitionClient, Not> {
    Ok(client.partition_client(text(step, "topic"), one as i32, UnknownTopicHandling::Retry).await?)
}

async fn create(client: &Client, step: &Value) -> Done {
    let partitions = number(step, "partitions") as i32;
    // It has no way to say configs.
    client.controller_client()?.create_topic(text(step, "topic"), partitions, -1, TIMEOUT.as_millis() as i32).await?;
    Ok(Value::Null)
}

async fn describe(client: &Client, step: &Value) -> Done {
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|one| one.name == text(step, "topic"));
    Ok(json!({ "partitions": found.map_or(0, |one| one.partitions.len()) }))
}

async fn delete(client: &Client, step: &Value) -> Done {
    client.controller_client()?.delete_topic(text(step, "topic"), TIMEOUT.as_millis() as i32).await?;
    Ok(Value::Null)
}

async fn produce(client: &Client, step: &Value) -> Done {
    let codec = text(step, "codec");
    let compression = match codec {
        "none" => Compression::NoCompression,
        "gzip" => Compression::Gzip,
        "snappy" => Compression::Snappy,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        other => return Err(Not::Lacks(other.into())),
    };
    let partitions = number(step, "partitions");
    let mut batches: HashMap<usize, Vec<Record>> = HashMap::new();
    for each in 0..number(step, "count") {
        batches.entry(each % partitions).or_default().push(Record {
            key: Some(format!("k{each}").into_bytes()),
            value: Some(format!("{}-{each}-{}", text(step, "prefix"), "x".repeat(100)).into_bytes()),
            headers: BTreeMap::from([("codec".to_string(), codec.as_bytes().to_vec())]),
            timestamp: chrono::Utc::now(),
        });
    }
    for (one, records) in batches {
        partition(client, step, one).await?.produce(records, compression).await?;
    }
    Ok(Value::Null)
}

async fn read(client: &Client, step: &Value) -> Done {
    let string = |bytes: Option<Vec<u8>>| String::from_utf8_lossy(&bytes.unwrap_or_default()).to_string();
    let mut records: Vec<Value> = vec![];
    let deadline = Instant::now() + TIMEOUT;
    for one in 0..number(step, "partitions") {
        let from = partition(client, step, one).await?;
        let mut offset = 0;
        // Its partitions are read one by one, to their ends: its fetches know no isolation.
        loop {
            let (batch, high_watermark) = from.fetch_records(offset, 1..1_000_000, 500).await?;
            for each in batch {
                offset = offset.max(each.offset + 1);
                let codec = each.record.headers.get("codec").cloned();
                records.push(json!([one, each.offset, string(each.record.key), string(each.record.value), string(codec)]));
            }
            if offset >= high_watermark || records.len() >= number(step, "count") {
                break;
            }
            if Instant::now() > deadline {
                return Err(Not::Refused("Timeout".into(), format!("{} records came", records.len())));
            }
        }
    }
    Ok(json!({ "records": records }))
}

async fn done(client: &Client, step: &Value) -> Done {
    match text(step, "do") {
        "create" => create(client, step).await,
        "describe" => describe(client, step).await,
        "delete" => delete(client, step).await,
        "produce" => produce(client, step).await,
        "read" if text(step, "isolation") == "read_committed" => Err(Not::Lacks("read_committed".into())),
        "read" => read(client, step).await,
        other => Err(Not::Lacks(other.into())),
    }
}

fn told(done: Done) -> Value {
    match done {
        Ok(result) => json!({ "result": result }),
        Err(Not::Lacks(what)) => json!({ "lacks": what }),
        Err(Not::Refused(name, text)) => json!({ "error": name, "text": text }),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script: Value = serde_json::from_reader(io::stdin())?;
    let client = connected(&script["connection"]).await;
    for step in script["steps"].as_array().into_iter().flatten() {
        let line = match &client {
            Ok(client) => tokio::time::timeout(TIMEOUT, done(client, step)).await
                .unwrap_or_else(|_| Err(Not::Refused("Timeout".into(), "the step has had its time".into()))),
            Err(Not::Lacks(what)) => Err(Not::Lacks(what.clone())),
            Err(Not::Refused(name, text)) => Err(Not::Refused(name.clone(), text.clone())),
        };
        println!("{}", told(line));
        io::stdout().flush()?;
    }
    Ok(())
}
