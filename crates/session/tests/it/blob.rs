//! Blobs: written once, found by their digest, checked on the way out.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hames_protocol::Digest;
use hames_protocol::port::Blobs;

use crate::Place;

#[test]
fn bytes_are_found_by_their_digest_across_processes_of_the_same_session() {
    let place = Place::new();
    let session = place.create();
    let digest = session.blobs.put(b"large\0bytes").unwrap();
    assert_eq!(digest, Digest::of(b"large\0bytes"));
    let path = session.blobs.path(&digest).unwrap();
    assert!(path.ends_with(format!("blobs/{}/{digest}", &digest.as_str()[..2])), "{}", path.display());
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let id = session.id.clone();
    drop(session);
    assert_eq!(place.store().open(&id).unwrap().blobs.get(&digest).unwrap(), b"large\0bytes");
}

#[test]
fn the_same_bytes_are_not_written_again() {
    let place = Place::new();
    let blobs = place.create().blobs;
    let path = blobs.path(&blobs.put(b"once").unwrap()).unwrap();
    let inode = path.metadata().unwrap().ino();
    blobs.put(b"once").unwrap();
    assert_eq!(path.metadata().unwrap().ino(), inode);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_damaged_blob_is_never_given_out_and_is_healed_by_the_next_put() {
    let place = Place::new();
    let blobs = place.create().blobs;
    let digest = blobs.put(b"true bytes").unwrap();
    std::fs::write(blobs.path(&digest).unwrap(), b"false byte").unwrap();
    let problem = blobs.get(&digest).unwrap_err().to_string();
    assert!(problem.contains("is damaged"), "{problem}");
    blobs.put(b"true bytes").unwrap();
    assert_eq!(blobs.get(&digest).unwrap(), b"true bytes");
}

#[test]
fn a_digest_from_a_damaged_log_never_becomes_a_path() {
    let place = Place::new();
    let blobs = place.create().blobs;
    std::fs::write(place.folder.path().join("outside"), b"secret").unwrap();
    for text in ["../../../../outside", "", "a", "/etc/passwd", &"é".repeat(32), &"A".repeat(64)] {
        let digest: Digest = serde_json::from_value(text.into()).unwrap();
        assert!(blobs.get(&digest).unwrap_err().to_string().contains("not a SHA-256 digest"), "{text}");
        assert!(blobs.path(&digest).is_err(), "{text}");
    }
    assert_eq!(blobs.get(&Digest::of("missing")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn many_writers_of_the_same_bytes_do_not_disturb_each_other() {
    let place = Place::new();
    let blobs = place.create().blobs;
    let bytes = vec![7; 100_000];
    let digests: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(|| blobs.put(&bytes).unwrap())).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(digests.iter().all(|digest| blobs.get(digest).unwrap() == bytes));
}
