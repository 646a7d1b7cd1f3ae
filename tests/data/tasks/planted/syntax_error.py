# expect: does_not_load
class Model(:
