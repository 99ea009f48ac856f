// Package serve answers frames with batches of observations. The caller stores the states of the keys.
//
// # Frames
//
// All numbers are little endian. A frame is
//
//	length    uint32, bytes after it: 5 to 2³⁰
//	type      one byte
//	checksum  uint32, CRC-32 (IEEE, as in zlib) of the type and the payload
//	payload   length − 5 bytes
//
// Each frame of the caller is answered by one frame, in order. A text is its length, uint32, and its bytes.
// A time is int64, nanoseconds since 1970 UTC; −2⁶³ is none.
//
//	h → h  JSON {"protocol": 1, "version": "…", "parent": pid}, the first frame. The answer has protocol and
//	       version. The server refuses another protocol or version; a missing version matches any. The process ends if
//	       its parent has another pid; a missing pid matches any.
//	s → s  JSON, see Settings. The answer is JSON, see Description. Equal bytes return the same model.
//	       The server keeps the 64 models that were used last.
//	b → b  a batch, and its answer
//	t → t  JSON {"zone": "…", "times": ["…", …], "keys": [number, …]}: texts in the order of their records, read as by
//	       hafvf run. The order within a key resolves local times that occur twice. The answer is JSON
//	       {"times": [nanoseconds, …], "wrong": {"3": "…"}, "doubt": "…", "first": "…"}: none for an empty or wrong
//	       text; wrong has the reasons by index; doubt is that of times.DoubtOf, and first its first time.
//	y → y  YAML. The answer is the same as JSON.
//	r → r  a request for tables, and its answer. Frames of progress may come before the answer: p, JSON {"done": n,
//	       "total": n}, where a total of 0 is unknown.
//	… → e  JSON {"code": "…", "error": "…", "key": "…"}: an error, with the key if it concerns one key. The frame had no
//	       effect; the next frame may be any. Codes: frame (type, length or checksum), version, settings, batch,
//	       other_config (a state was written with other settings), state (it is damaged), panic.
//
// Settings are the keys of CONFIG.md that concern the model. Without a family and a prior, the family is normal with
// prior: auto. All other defaults are in CONFIG.md.
//
// # A batch
//
//	model     uint32, from the answer to its settings
//	flags     uint32: 1 records, 2 columns, 4 alerts, 8 ids, 16 states, 32 ends of alarms, 64 settings of states,
//	          128 migrate states of other settings, as by hafvf run --migrate (needs 64), 256 texts of times
//	length    uint32, numbers of an observation; 0 for events without a value
//	keys      uint32, number of keys
//	horizon   time before which nothing will arrive: none, or 2⁶³−1 at the end of all input
//	now       time for silences and expiry, such as the latest time of all keys; or none
//	for each key: text key, text state (length 2³²−1: none), uint32 number of its observations
//	times     of all observations, key by key; with texts of times: text of each, read as in a frame t with the zone
//	          of the settings
//	values    float64, length numbers for each observation; NaN is missing
//	with ids: text id of each observation
//	with settings of states: text, the Description.Settings with which they were written: errors name the differences
//
// # Its answer
//
//	for each key: text state, uint32 number of rows, uint32 number of rejects, time of its deadline
//	with columns: int32 index in the batch of each row (−1: an interval, or an observation of an earlier batch), time of
//	              each row, then each column of Description.Columns, float64 of each row; NaN is null
//	indices       int32, of each reject, as for rows
//	text records, text alerts, text rejects
//
// Rows and rejects are in the order of the keys. The texts are the JSON Lines of hafvf run; in rejects, place is the id
// of the observation, and raw is empty. Alerts are the alerts that a file receives by default; with flag 32 also the
// ends of alarms. A state is a checksum, uint32 CRC-32 of the rest, and the bytes of keyed.KeyState. A new key has a
// state of length 0, which the caller may send too. Without flag 16 all states have length 0.
//
// At its deadline a key may have something to report without a new observation. Then, if all earlier observations have
// arrived, send a batch with the deadline as now, and with a horizon that is Description.Patience earlier.
//
// # A request for tables
//
//	text    JSON {"settings": Settings, "request": research.Request, "rows": n}; transform: smooth is allowed
//	keys    int32 of each row, an index into the keys of the request
//	times   of each row
//	values  float64, request.length numbers for each row; NaN is missing
//
// Its answer is the text of a research.Answer as JSON, then the text of the lines of each of its tables.
package serve
