// Package serve filters batches of observations that come in frames, whose sender keeps the states of the keys.
//
// # Frames
//
// All numbers are little endian. A frame is
//
//	length    uint32, of what follows: 5 to 2³⁰
//	type      one byte
//	checksum  uint32, CRC-32 (IEEE, as zlib has it) of the type and the payload
//	payload   length − 5 bytes
//
// Each frame of the caller is answered by one frame, in order. A text is its length, uint32, and as many bytes.
// A time is int64, nanoseconds since 1970 UTC; none is −2⁶³.
//
//	h → h  JSON {"protocol": 1, "version": "…", "parent": pid}, the first frame. The answer has protocol and
//	       version. Another protocol or version is refused; an absent version is any. The process ends if its
//	       parent is another than that pid; an absent pid is any.
//	s → s  JSON, see Settings. The answer is JSON, see Description. The same bytes are the same model.
//	b → b  a batch, and what becomes of it.
//	t → t  JSON {"zone": "…", "times": ["…", …], "keys": [number, …]}, texts in the order of their records, which are
//	       read as hafvf run reads them; of an hour that comes twice the order of a key tells which one it is. The answer is
//	       JSON {"times": [nanoseconds, …], "wrong": {"3": "…"}}: none where a text is empty or wrong, and by place why.
//	y → y  YAML. The answer is JSON of the same.
//	… → e  JSON {"code": "…", "error": "…", "key": "…"}, what is wrong, with the key if it is that of one key. Nothing
//	       of the frame has been done, and the next frame may be any. Codes: frame (type, length or checksum), version,
//	       settings, batch, other_config (a state was written with other settings), state (it is damaged), panic.
//
// The settings are those of CONFIG.md, of what concerns the model. If neither a family nor a prior is given, the family
// is normal with prior: auto; all other defaults are those of CONFIG.md.
//
// # A batch
//
//	model     uint32, of the answer to its settings
//	flags     uint32: 1 records, 2 columns, 4 alerts, 8 ids, 16 states, 32 ends of alarms, 64 settings of states,
//	          128 migrate: a state of other settings, which stand there, goes on as by hafvf run --migrate
//	length    uint32, numbers of an observation; 0 for events without a value
//	keys      uint32, how many
//	horizon   time before which nothing comes any more: none, or 2⁶³−1 at the end of all input
//	now       time until which silences are told and keys are forgotten (expire), such as the latest of all keys; or none
//	of each key: text key, text state (the length 2³²−1: none), uint32 number of its observations
//	times     of all observations, key by key
//	values    float64, length numbers for each observation; NaN is missing
//	with ids: text id of each observation
//	with settings of states: text, the Description.Settings with which they were written: errors say what differs
//
// # Its answer
//
//	of each key: text state, uint32 number of rows, uint32 number of rejects, time of its deadline
//	with columns: int32 place in the batch of each row (−1: it came in an earlier batch, or is an interval), time of
//	              each row, then each column of Description.Columns, float64 of each row; NaN is null
//	places        int32, of each reject, as those of rows
//	text records, text alerts, text rejects
//
// Rows and rejects are those of the first key, of the second, and so on. Texts are the JSON Lines of hafvf run; of
// rejects place is the id of the observation, and raw is empty. Alerts are those that a file gets by default, with flag
// 32 also those of values that have returned. A state is a checksum, uint32 CRC-32 of the rest, and the bytes of
// keyed.KeyState; one of length 0 is that of a key of which nothing is known, and may be given as such. Without the flag
// states all are of length 0. At its deadline there is something to tell of a key without a new observation: call again
// if all that is before it has come, with it as now, and with the horizon Description.Patience before it.
package serve
