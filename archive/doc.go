// Package archive keeps the record of every run: an index over the runs' folders to list and compare them, bundles to carry a
// run elsewhere, and replay, which makes a run again and says whether it came out the same to the bit.
//
// A run's folder, which package pipeline writes, is the truth. The index, a SQLite database beside the folders, is made from
// it, may lag behind, and can be made anew at any time. Training never waits for it.
//
// A bundle is a tar archive compressed with Zstandard (RFC 8878); see Export for its layout.
package archive
