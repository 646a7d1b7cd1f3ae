// The kernels of generation as plain functions of device pointers, beside those of kernels.h.
// What a slot needs from step to step stands in its SlotState; a row is one token of one pass.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "trainer/generate/device_decoder.h"

namespace khost::trainer::cuda {

struct SlotState {
  int32_t token;     // drawn last, to be read next
  int32_t position;  // where it will stand
  int32_t drawn;     // tokens drawn so far: the place in the slot's random stream
  int32_t top_k;
  uint64_t seed;
  float temperature;
  float top_p;
};

// Rows row .. row+count-1 are tokens of one slot at position, position+1, ...; count 0 is padding.
struct Tile {
  int32_t row, count, slot, position;
};

// Where the keys of a slot's head stand: [slot][layer][key|value][head][position][width].
struct CacheView {
  void* data;
  int64_t slot_stride, layer, kv_heads, positions, head_width;
};

// Rows of running sequences: row r continues slots[r]; below 0, or where the cache is full, it is padding.
// Fills one tile and one id a row.
void gather_rows(const SlotState* states, const int32_t* slots, int64_t rows, int64_t positions, Tile* tiles,
                 int32_t* row_slots, int32_t* row_positions, int32_t* ids, cudaStream_t stream);
void embed(bool half, const void* embedding, const int32_t* ids, void* x, int64_t rows, int64_t width,
           cudaStream_t stream);

// Where the weights of a norm are folded into the matrix behind it, that product was of rows not yet normed: whoever
// reads its result multiplies by 1 / root mean square of the row. bf16, even width; no `x`: nothing is folded.
struct Folded {
  const void* x;  // [rows, width]
  int64_t width;
  float epsilon;
};

// Norms (where weights are given) and turns the q and k heads of each row, q in place, k and v into the cache. Rows of
// a slot below 0 are left alone.
struct Append {
  bool half;
  int64_t rows, heads;
  void* qkv;
  const void *q_norm, *k_norm;
  float epsilon;
  const int32_t *slots, *positions;  // of each row
  const float *cosine, *sine;
  CacheView cache;
  Folded folded;
};
// Knows nothing of folded rows.
void append(const Append& call, cudaStream_t stream);

// Attention of each row to what its slot's cache holds up to the row's own position.
struct Attend {
  bool half;
  int64_t tiles, rows_a_tile;  // at most: rows_a_tile * heads / kv_heads <= 16
  int64_t heads;
  const Tile* tile;
  const void* qkv;
  void* out;  // [rows, H * D]
  CacheView cache;
};
// Tokens of one slot that one tile may hold.
int64_t tokens_a_tile(bool half, int64_t heads, int64_t kv_heads, int64_t head_width);
void attend(const Attend& call, cudaStream_t stream);
// Whether append_and_attend is one kernel, which knows folded rows.
bool appends_in_one(bool half, int64_t heads, int64_t kv_heads, int64_t head_width);
// Append and then attend, for tiles of one row.
void append_and_attend(const Append& add, const Attend& call, cudaStream_t stream);

// SwiGLU of folded rows.
void swiglu_folded(const void* gate_up, void* out, int64_t rows, int64_t width, const Folded& folded,
                   cudaStream_t stream);

// Draws one token for each row from logits fp32 and moves the row's slot on.
struct DrawRows {
  int64_t rows, vocabulary;
  const float* logits;
  const int32_t* slots;  // of each row; below 0: padding
  SlotState* states;
  SlotDrawn* drawn;      // one a slot
  const uint32_t* mask;  // a bit for each id that may be drawn, as TokenMask has them; null: all
  Folded folded;
};
void draw(const DrawRows& call, cudaStream_t stream);

}  // namespace khost::trainer::cuda
