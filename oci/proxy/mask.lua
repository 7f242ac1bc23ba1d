-- Masks the secrets of a host in its answers, for haproxy 2.6 and newer (Lua API, "Filter class").
--
-- Each secret is replaced by as many asterisks, so that lengths stay true. Nothing waits but the end of what has
-- come while it may be the beginning of a secret: at most one byte less than a secret's length.

local Mask = { id = "mask", flags = filter.FLT_CFG_FL_HTX }
Mask.__index = Mask

function Mask:new()
    return setmetatable({ secrets = {}, masked = 0 }, Mask)
end

-- A secret is what stands behind its scheme; for Basic, the password in it, too. The key of a signature has several words.
local function secrets_of(txn)
    local found = {}
    local number, value = 1, txn:get_var("txn.secret_1")
    while value do -- a request that lacks one is refused
        local secret = value:match("[^ ]+$")
        for word in (value:match("^AWS4%-HMAC%-SHA256 (.+)$") or secret):gmatch("[^ ]+") do
            found[#found + 1] = word
        end
        local plain = value:match("^[Bb]asic ") and txn.c:b64dec(secret)
        found[#found + 1] = plain and plain:match(":(.+)$")
        number = number + 1
        value = txn:get_var("txn.secret_" .. number)
    end
    return found
end

-- The text without secrets, and how many it had.
local function masked(text, secrets)
    local count = 0
    for _, secret in ipairs(secrets) do
        if text:find(secret, 1, true) then -- faster than a pattern, and mostly nothing
            local found
            text, found = text:gsub(secret:gsub("%W", "%%%0"), string.rep("*", #secret))
            count = count + found
        end
    end
    return text, count
end

-- The length of the longest end of a text that a secret begins with.
local function begun(text, secrets)
    local longest = 0
    for _, secret in ipairs(secrets) do
        local first = secret:sub(1, 1)
        local at = text:find(first, math.max(1, #text - #secret + 2), true)
        while at do
            if text:sub(at) == secret:sub(1, #text - at + 1) then
                longest = math.max(longest, #text - at + 1)
                break
            end
            at = text:find(first, at + 1, true)
        end
    end
    return longest
end

function Mask:count(txn, count)
    if count > 0 then
        self.masked = self.masked + count
        txn:set_var("txn.masked", self.masked)
    end
end

function Mask:start_analyze(txn, channel)
    if channel:is_resp() then
        filter.register_data_filter(self, channel)
    end
end

function Mask:http_headers(txn, message)
    if not message:is_resp() then
        return
    end
    self.secrets = secrets_of(txn)
    local line = message:get_stline()
    local _, count = masked(line.reason, self.secrets)
    if count > 0 then
        message:set_status(line.code)
        self:count(txn, count)
    end
    for name, values in pairs(message:get_headers()) do
        local clean, found = masked(name, self.secrets)
        local written = {}
        for at = 0, #values do
            local value, more = masked(values[at], self.secrets)
            written[#written + 1] = value
            found = found + more
        end
        if found > 0 then
            message:del_header(name)
            for _, value in ipairs(written) do
                message:add_header(clean == name and name or "x-masked", value)
            end
            self:count(txn, found)
        end
    end
end

function Mask:http_payload(txn, message)
    if not message:is_resp() or #self.secrets == 0 then
        return message:input()
    end
    local text = message:body()
    if not text or #text == 0 then
        return -- all of it: the end of the message, and what follows the body
    end
    local clean, count = masked(text, self.secrets)
    if count > 0 then
        message:set(clean, 0, #text)
        self:count(txn, count)
    end
    if message:eom() then
        return #text
    end
    return #text - begun(clean, self.secrets)
end

core.register_filter("mask", Mask, function(self) return self end)
